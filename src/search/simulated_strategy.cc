#include "search/simulated_strategy.h"

#include <algorithm>
#include <deque>

#include "compile/pipeline/schedule/schedule.h"
#include "search/in_parallel.h"
#include "search/stage_choice.h"

namespace tessera {
namespace {

// Stages times micro-batches that are played; longer steps go on as these end.
constexpr int64_t kPlayedCells = 1 << 14;

int64_t micro_batches_of(const Workload& w, const Strategy& s) {
  return std::max<int64_t>(1, w.global_batch / (s.dp * s.micro_batch));
}

PipelineTimes times_of(const PipelineSeconds& price) {
  PipelineTimes times;
  for (const PassTimes& stage : price.stages) {
    times.stages.push_back(
        {stage.forward_s, stage.backward_s - stage.weight_grad_s, stage.weight_grad_s});
  }
  times.messages.assign(price.stages.size() - 1, {.latency = price.message_s});
  return times;
}

}  // namespace

StrategySimulator::StrategySimulator(Workload workload) : model_(std::move(workload)) {}

StrategySimulator::Played StrategySimulator::play(const Strategy& s, const PipelineTimes& times,
                                                  int64_t micro_batches) {
  std::unique_ptr<ScheduleTape>& tape = tapes_[{s.schedule, s.pp, s.virtual_stages, micro_batches}];
  if (tape == nullptr) {
    tape = std::make_unique<ScheduleTape>(make_schedule(name_of(s.schedule), static_cast<int>(s.pp),
                                                        static_cast<int>(s.virtual_stages),
                                                        static_cast<int>(micro_batches)));
  }
  const PipelineOutcome outcome = simulator_.run(*tape, times);
  return {outcome.makespan, outcome.busiest};
}

StrategySimulator::Played StrategySimulator::pipeline(const Strategy& s,
                                                      const PipelineSeconds& price) {
  const int64_t all = micro_batches_of(model_.workload(), s);
  if (s.pp == 1) {
    const PassTimes& stage = price.stages.front();
    const double work = static_cast<double>(all) * (stage.forward_s + stage.backward_s);
    return {work, work};
  }
  const PipelineTimes times = times_of(price);
  const int64_t rounds = std::max<int64_t>(4, kPlayedCells / (s.pp * s.pp * s.virtual_stages));
  if (all <= rounds * s.pp) return play(s, times, all);
  // A long step repeats itself in its middle: as many micro-batches more take as much time more.
  const int64_t some = rounds * s.pp + all % s.pp;
  const Played played = play(s, times, some);
  const double one_round = played.makespan_s - play(s, times, some - s.pp).makespan_s;
  return {played.makespan_s + one_round * static_cast<double>((all - some) / s.pp),
          played.busiest_s * (static_cast<double>(all) / static_cast<double>(some))};
}

SimulatedStrategy StrategySimulator::simulate(const Strategy& strategy) {
  SimulatedStrategy plan{strategy, model_.estimate(strategy), 0};
  StepTime& time = plan.estimate.time;
  plan.closed_form_s = time.step_s;
  const PipelineSeconds price = model_.pipeline(strategy);
  const Played played = pipeline(strategy, price);
  time.exposed_s[static_cast<size_t>(CommAxis::kPipeline)] = 0;
  time.bubble_s = std::max(0.0, played.makespan_s - played.busiest_s);
  double exposed_s = 0;
  for (const double axis : time.exposed_s) exposed_s += axis;
  time.step_s = played.busiest_s + time.bubble_s + price.once_s;
  time.compute_s = time.step_s - time.bubble_s - exposed_s - time.optimizer_s;
  const double slower = time.step_s / plan.closed_form_s;
  plan.estimate.mfu /= slower;
  plan.estimate.hfu /= slower;
  plan.estimate.tokens_per_s /= slower;
  plan.estimate.flops_per_device_s /= slower;
  return plan;
}

std::vector<Strategy> other_stages(CostModel& model, const Strategy& strategy, int64_t limit) {
  std::vector<Strategy> others;
  if (!can_choose_stages(model.workload(), strategy)) return others;
  Strategy plain = strategy;
  plain.stage_layers.clear();
  plain.stage_recompute.clear();
  for (const auto& choice :
       {fewest_again(model, plain, limit), shortest_stages(model, plain, limit)}) {
    if (!choice.has_value()) continue;
    Strategy other = with_stages(model.workload(), plain, *choice);
    const bool same = other.stage_layers == strategy.stage_layers &&
                      other.stage_recompute == strategy.stage_recompute &&
                      other.recompute == strategy.recompute;
    if (!same) others.push_back(std::move(other));
  }
  return others;
}

std::vector<SimulatedStrategy> simulate_strategies(const Workload& workload,
                                                   std::span<const Strategy> strategies,
                                                   int64_t limit, int threads) {
  std::deque<StrategySimulator> simulators;
  for (int t = 0; t < threads; ++t) simulators.emplace_back(workload);
  std::vector<SimulatedStrategy> plans(strategies.size());
  in_parallel(strategies.size(), threads, [&](size_t i, size_t thread) {
    StrategySimulator& simulator = simulators[thread];
    plans[i] = simulator.simulate(strategies[i]);
    for (const Strategy& other : other_stages(simulator.model(), strategies[i], limit)) {
      if (simulator.model().peak_bytes(other) > limit) continue;
      SimulatedStrategy plan = simulator.simulate(other);
      if (plan.step_s() < plans[i].step_s()) plans[i] = std::move(plan);
    }
  });
  return plans;
}

}  // namespace tessera
