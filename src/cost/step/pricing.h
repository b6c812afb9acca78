// The time of one strategy's step, put together from the times of its ranks: the busiest rank, the
// bubble, sums over replicas, the optimizer, and what the links must carry.
#pragma once

#include <array>

#include "cost/step/link_load.h"
#include "cost/step/rank_times.h"

namespace tessera {

// Everything that is known of a strategy's step; no heap.
struct Breakdown {
  StepTime time;
  std::array<AxisTraffic, kNumCommAxes> traffic = {};
};

// Lives on the stack of one call; step() or pipeline() is called once.
class Pricing {
 public:
  explicit Pricing(const RankLayout& layout) : times_(layout), l_(times_.layout()) {}
  Pricing(const Pricing&) = delete;
  Pricing& operator=(const Pricing&) = delete;

  Breakdown step();
  // After step(): of the kernels of the busiest rank, those of forward.
  [[nodiscard]] double forward_kernels_s() const;

  // What one micro-batch costs stage by stage, and what is left for once per step.
  PipelineSeconds pipeline();

  // At most the closed-form step of every choice of stages and of layers to compute again whose
  // busiest rank takes `busiest_s` or more: all ranks together have all of the work.
  [[nodiscard]] double stages_bound_s(double busiest_s) const;

 private:
  // Gradients added up over replicas, and new weights, once per step.
  struct DataParallel {
    double once_s = 0;    // after the last backward, or beside it
    double gather_s = 0;  // part of it: of new weights
    double bytes = 0;
    double wire_s = 0;  // of once_s, bytes over bandwidth
  };

  void find_stages();
  [[nodiscard]] double bubble() const;
  [[nodiscard]] double bubble_share(double weight) const;
  void add_elementwise_again(StepTime& time) const;
  void add_data_parallel(Breakdown& result);
  [[nodiscard]] bool adds_every_micro_batch() const;
  DataParallel sum_across_shards();
  // `counted`: the load of links is.
  DataParallel sum_over_replicas(int64_t rank, const RankLayers& layers, bool counted = true);
  [[nodiscard]] double first_rank_exposed_s();
  struct Summed {
    int64_t parameters;
    int64_t buckets = 0;  // that they are added up in
    int64_t small = 0;    // further ones of norms and biases
  };
  void sum_over(const RankGroup& group, const GroupLinks& links, const Summed& summed,
                DataParallel& sums, bool counted);
  double add_expert_sums_over_tp(DataParallel& sums);
  [[nodiscard]] double exposed_s(const DataParallel& sums, const RankTime& rank,
                                 double last_s = 0) const;
  [[nodiscard]] double last_backwards_s(const RankTime& rank) const;
  [[nodiscard]] double later_updates_s() const;
  [[nodiscard]] double tied_sum_s() const;
  [[nodiscard]] double optimizer_s() const;
  void set_levels(Breakdown& result);
  void add_gathering_load();
  void keep_above_links(Breakdown& result) const;

  RankTimes times_;
  const RankLayout& l_;
  RankTime busiest_;
  int64_t busiest_rank_ = 0;
  RankLayers busiest_layers_;
  double through_s_ = 0;       // of one micro-batch, through all ranks
  double data_exposed_s_ = 0;  // by sums, whatever they are over
  GroupLinks data_links_;
  LinkLoad load_;
};

}  // namespace tessera
