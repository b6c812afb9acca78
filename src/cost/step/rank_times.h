// How long one micro-batch takes in a pipeline rank, or in one of its stages: layers, embedding and
// head, what ZeRO-3 gathers for them, and the messages between ranks.
#pragma once

#include <array>

#include "cost/step/collective_time.h"
#include "cost/step/cost_model.h"
#include "cost/step/pass_seconds.h"
#include "cost/step/rank_layout.h"

namespace tessera {

// One micro-batch through a pipeline rank.
struct RankTime {
  double seconds = 0;
  double again = 0;
  double weight = 0;
  std::array<double, kNumCommAxes> exposed = {};
  std::array<double, kNumCommAxes> bytes = {};
  double forward = 0, backward = 0;
  double gather_wire = 0, expert_gather_wire = 0;  // bytes over bandwidth of what layers gather
  double across_wire = 0;                          // the same between shard groups
  double summing = 0;  // part of `seconds`: sums of gradients that every backward waits for
  [[nodiscard]] double exposed_total() const;
};

// Communication beside kernels.
struct Overlap {
  double comm_s = 0;
  double wire_s = 0;     // part of it: bytes over bandwidth
  double kernels_s = 0;  // what it can hide behind
  double last_s = 0;     // part of comm_s that comes after the kernels in any case
};
struct Overlapped {
  double exposed_s = 0;  // what both take beyond the kernels
  double slower_s = 0;   // part of it: what the kernels lose
};
// Where an engine's collectives are counted one by one, kernels lose speed only while bytes are on
// the wire, and go on hiding communication while they are slower.
Overlapped overlap(const EngineNumbers& engine, const Overlap& both);

// Lives on the stack of one call.
class RankTimes {
 public:
  explicit RankTimes(const RankLayout& layout);

  [[nodiscard]] const RankLayout& layout() const { return l_; }
  [[nodiscard]] const AxisStrides& strides() const { return strides_; }

  // As if the rank had these layers. All inner ranks take the same time for the same layers.
  [[nodiscard]] RankTime rank_time(int64_t rank, const RankLayers& layers) const;
  // Its `seconds` alone.
  [[nodiscard]] double rank_seconds(int64_t rank, const RankLayers& layers) const;
  // Without messages.
  [[nodiscard]] PassTimes stage_time(int64_t stage) const;
  // Communication in the forward of a rank that has these layers.
  [[nodiscard]] double forward_comm_s(int64_t rank, const RankLayers& layers) const;

  // Norms, and where asked for activations, that every layer computes again without computing whole
  // layers again; 0 where the strategy does not.
  [[nodiscard]] double elementwise_again_s() const;

  // The size of a message between neighbours.
  [[nodiscard]] double hop_bytes() const { return hop_bytes_; }
  // One message at a time, in order: ranks on both sides of the slowest boundary wait for each of
  // its messages, beyond the average that they are charged, and all others for them.
  [[nodiscard]] double slow_messages_s() const;

  // Work of all ranks for one micro-batch, divided by them: whatever the stages are, the busiest
  // has no less.
  [[nodiscard]] double mean_rank_s() const;
  // The same for messages and for the least that gathering exposes.
  [[nodiscard]] double mean_messages_s() const;
  [[nodiscard]] double mean_gathering_s() const;
  // The largest part of a pass that weight gradients can be.
  [[nodiscard]] double largest_weight_share() const;

 private:
  // ZeRO-3: weights are gathered for forward and again for backward, gradients scattered, in every
  // micro-batch, beside the kernels of the layers before. Some engines scatter in every micro-batch
  // of ZeRO-2 as well.
  struct GatherCost {
    double forward_s = 0, backward_s = 0, bytes = 0;
    double sum_s = 0;                            // part of backward_s: of gradients
    double wire_s = 0, expert_wire_s = 0;        // bytes over bandwidth within a shard group
    double across_bytes = 0, across_wire_s = 0;  // between shard groups; part of sum_s
    // The layer's own communication over the same links, which nothing can be gathered beside.
    double busy_forward_s = 0, busy_backward_s = 0;
  };
  // A kind of layers.
  struct Unit {
    const LayerCost& cost;
    PassSeconds pass;
    GatherCost gather = {};
  };

  // What a rank or a stage has; layers that predict later tokens are among its layers.
  struct Counts {
    double dense = 0, experts = 0, embeddings = 0, heads = 0;
  };

  struct Gathering;  // what all units gather over

  void wait_for_tensor_parallel();
  void prepare_hops();
  void prepare_gathering();
  void prepare_gathering(Unit& unit, const Gathering& gathering) const;
  // `first`, `last`: whether it has the embedding, and the head.
  [[nodiscard]] Counts counts_of(const RankLayers& layers, bool first, bool last) const;
  [[nodiscard]] double share_after_gradient(const Counts& counts, double again) const;
  // `again`: the share of the layers that are computed again as a whole.
  void add_passes(RankTime& time, const Counts& counts, double again) const;
  void add_gathering(RankTime& time, const RankLayers& layers, const Counts& ends,
                     double again) const;
  // Calls back with every unit that is gathered, how many of it, and their share computed again.
  template <typename Gather>
  void for_gathered(const RankLayers& layers, const Counts& ends, double again,
                    const Gather& gather) const;
  // What of a unit's gathering its kernels do not hide.
  struct ExposedGathering {
    double forward_s = 0, backward_s = 0;
    double waited_s = 0;  // for sums
    [[nodiscard]] double total_s() const { return forward_s + backward_s + waited_s; }
  };
  [[nodiscard]] ExposedGathering exposed_gathering(const Unit& unit, double again) const;
  [[nodiscard]] double messages_of(int64_t rank) const;

  RankLayout l_;
  Unit dense_, experts_, head_, embedding_;
  AxisStrides strides_;
  double hop_bytes_ = 0, hop_s_ = 0, slowest_hop_s_ = 0;
};

}  // namespace tessera
