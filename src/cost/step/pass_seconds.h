// Time and traffic of a layer for one micro-batch, forward and backward.
#pragma once

#include "cost/step/layer_cost.h"

namespace tessera {

// Time of a layer for one micro-batch, with what is computed again.
struct PassSeconds {
  double forward = 0;
  double backward = 0;  // with what is computed again
  double again = 0;     // part of backward
  double weight = 0;    // part of backward: weight gradients
  double adding = 0;    // part of weight: to those of earlier micro-batches
  double once = 0;      // part of forward that is never computed again
  // Part of backward: communication over tp beyond the layer's own, because weight gradients that
  // it would run beside come later.
  double tensor_waits = 0;
};

// Communication in forward, `again` times more of it, and in backward.
inline double sum_axis(const LayerCost& cost, CommAxis axis, double again) {
  const auto i = static_cast<size_t>(axis);
  return cost.forward_comm.seconds[i] * (1 + again) - again * cost.once_comm.seconds[i] +
         cost.backward_comm.seconds[i];
}

inline double sum_axis_bytes(const LayerCost& cost, CommAxis axis, double again) {
  const auto i = static_cast<size_t>(axis);
  return cost.forward_comm.bytes[i] * (1 + again) - again * cost.once_comm.bytes[i] +
         cost.backward_comm.bytes[i];
}

// Without full recomputation, which differs between stages; `added` of the weight gradients are
// added to earlier ones on this rank.
inline PassSeconds pass_seconds(const LayerCost& cost, Recompute recompute, double added = 0) {
  PassSeconds pass;
  pass.forward = cost.forward_total_s();
  pass.once = cost.once_s + cost.once_comm.total_s();
  pass.adding = added * cost.accumulate_s;
  pass.backward = cost.backward_total_s() + pass.adding;
  pass.weight = cost.weight_grad_s + pass.adding;
  if (recompute == Recompute::kSelective) pass.again = cost.attention_forward_s;
  pass.backward += pass.again;
  return pass;
}

// The pass of layers of which `share` are computed again as a whole.
inline PassSeconds with_again(PassSeconds pass, double share) {
  const double again = share * (pass.forward - pass.once);
  pass.again += again;
  pass.backward += again;
  return pass;
}

}  // namespace tessera
