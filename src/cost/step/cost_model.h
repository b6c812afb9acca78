// The closed-form price of a strategy: memory of every stage, and the time of a step.
//
// A CostModel belongs to one workload and remembers what its strategies share (the times of a
// layer for a split and a micro-batch), so a search over millions of strategies costs a few hundred
// operations each. Not thread-safe: give every thread its own copy.
#pragma once

#include <memory>

#include "cost/step/estimate.h"
#include "cost/step/strategy.h"

namespace tessera {

// Times of one layer and one micro-batch, communication included.
struct PassTimes {
  double forward_s = 0;
  double backward_s = 0;     // all of it, with what is computed again
  double weight_grad_s = 0;  // part of backward_s
  // Parts of forward_s and of the rest of backward_s that need no input: weights that a rank which
  // has nothing to do gathers ahead of its turn.
  double early_forward_s = 0, early_backward_s = 0;
  // The end of backward_s, which no longer needs the gradient that it was given: the next one may
  // come.
  double after_gradient_s = 0;
};

// The time of one message from a stage to the next or back; nothing where one rank has both.
struct MessageSeconds {
  double latency_s = 0;
  double wire_s = 0;  // bytes over bandwidth
};

// The pipeline of a strategy stage by stage, for a simulation of its schedule.
struct PipelineSeconds {
  std::vector<PassTimes> stages;  // of one micro-batch, in order, without messages between them
  std::vector<MessageSeconds> messages;  // by boundary, one fewer than stages
  double once_s = 0;  // before or after the pipeline: sums over replicas, optimizer
  // In a step of the busiest rank, without messages: part of the times above.
  std::array<double, kNumCommAxes> exposed_s = {};
};

// Arithmetic of one step on all devices: 6 for every weight of a product and every token, and the
// scores that a causal mask leaves.
double model_flops(const Workload& workload);
double recomputed_flops(const Workload& workload, Recompute recompute);

class RankTrial;

class CostModel {
 public:
  explicit CostModel(Workload workload);  // ConfigError for a workload that cannot be
  CostModel(const CostModel& other);
  CostModel& operator=(const CostModel& other) = delete;
  ~CostModel();

  [[nodiscard]] const Workload& workload() const;

  // For strategies that why_impossible() accepts. The two agree to the last bit.
  [[nodiscard]] QuickEstimate quick(const Strategy& strategy);
  [[nodiscard]] Estimate estimate(const Strategy& strategy);

  // The parts of quick(): memory is the cheaper one.
  [[nodiscard]] int64_t peak_bytes(const Strategy& strategy);
  [[nodiscard]] double step_s(const Strategy& strategy);

  [[nodiscard]] PipelineSeconds pipeline(const Strategy& strategy);
  [[nodiscard]] PassTimes pass_times(const Strategy& strategy, bool experts = false);

  // At most `quick().step_s`, and the time of any simulation of pipeline(), of every strategy with
  // the same split, micro-batch, context kind and order: the average work of the ranks, with
  // nothing computed again.
  [[nodiscard]] double work_bound_s(const Strategy& strategy);
  // At most `quick().step_s` of every strategy that differs in stage_layers, recompute_layers and
  // stage_recompute alone, and whose busiest rank takes `busiest_s` or more for a micro-batch.
  [[nodiscard]] double stages_bound_s(const Strategy& strategy, double busiest_s = 0);
  // At most `quick().peak_bytes` of the same ones.
  [[nodiscard]] int64_t stages_bound_bytes(const Strategy& strategy);
  // Ranks with other layers; see rank_trial.h. The strategy must outlive it.
  [[nodiscard]] RankTrial rank_trial(const Strategy& strategy);
  // At most `quick().peak_bytes` of every strategy with the same split, zero and shard: what the
  // ranks have of parameters, gradients and states on average.
  [[nodiscard]] int64_t states_bound_bytes(const Strategy& strategy);

 private:
  struct Memo;
  std::unique_ptr<Memo> memo_;
};

}  // namespace tessera
