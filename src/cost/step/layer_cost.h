// What one layer, the embedding or the head costs a rank for one micro-batch: the part of a
// strategy's price that depends on the split and the micro-batch alone, so a search computes it
// once.
#pragma once

#include <array>
#include <cstdint>

#include "cost/step/estimate.h"
#include "cost/step/strategy.h"
#include "cost/step/sum_buckets.h"

namespace tessera {

struct AxisCosts {
  std::array<double, kNumCommAxes> seconds = {};
  std::array<double, kNumCommAxes> bytes = {};  // sent by a rank
  [[nodiscard]] double total_s() const;
  void add(CommAxis axis, double more_seconds, double more_bytes);
};

struct LayerCost {
  // Kernels.
  double forward_s = 0;
  double input_grad_s = 0;
  double weight_grad_s = 0;
  double attention_forward_s = 0;  // part of forward_s
  double accumulate_s = 0;         // to add weight gradients to those of earlier micro-batches
  double host_forward_s = 0;       // to issue the ops: a floor, or on top where kernels wait for it
  double host_backward_s = 0;
  double host_wait_s = 0;  // in forward, while the device stands still in any case
  bool waits_for_host = false;
  AxisCosts forward_comm, backward_comm;
  double tensor_backward_s = 0;  // over tp in backward, also what weight gradients hide
  // Parts of forward that are never computed again: the last product and the sum behind it.
  double once_s = 0;
  AxisCosts once_comm;

  // Parameters of a rank. Those that experts have are shared by other ranks than the rest.
  int64_t dense_parameters = 0;
  int64_t expert_parameters = 0;
  SumBuckets buckets;           // of their gradients
  int64_t largest_weights = 0;  // sum of one of each shape: buffers of fused weight gradients

  // Kept from forward to backward, by Recompute.
  std::array<int64_t, kNamesOf<Recompute>.size()> saved_bytes = {};
  int64_t working_bytes = 0;  // while its backward runs

  double forward_flops = 0;            // of the rank, as executed
  double attention_forward_flops = 0;  // part of it

  [[nodiscard]] double forward_total_s() const;
  [[nodiscard]] double backward_total_s() const;
  // Weight gradients run beside `most` of tensor_backward_s, as far as they reach.
  [[nodiscard]] double tensor_hidden_s(double most) const;
};

// Whether layer `index` has experts, and its cost.
LayerCost layer_cost(const Workload& workload, const Strategy& strategy, bool experts);

// Embedding on the first stage, final norm, head and loss on the last.
LayerCost embedding_cost(const Workload& workload, const Strategy& strategy);
LayerCost head_cost(const Workload& workload, const Strategy& strategy);

}  // namespace tessera
