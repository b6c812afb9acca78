#include "search/simulated_plan.h"

#include <algorithm>
#include <deque>

#include "compile/schedule/schedule.h"
#include "cost/stages.h"
#include "search/in_parallel.h"

namespace tessera {
namespace {

// Stages times micro-batches that are played; longer steps go on as these end.
constexpr int64_t kPlayedCells = 1 << 14;

int64_t micro_batches_of(const Workload& w, const Strategy& s) {
  return std::max<int64_t>(1, w.global_batch / (s.dp * s.micro_batch));
}

PipelineTimes times_of(const PipelinePrice& price) {
  PipelineTimes times;
  for (const PassTimes& stage : price.stages) {
    times.stages.push_back(
        {stage.forward_s, stage.backward_s - stage.weight_grad_s, stage.weight_grad_s});
  }
  times.messages.assign(price.stages.size() - 1, {.latency = price.message_s});
  return times;
}

}  // namespace

PlanSimulator::PlanSimulator(Workload workload) : model_(std::move(workload)) {}

PlanSimulator::Played PlanSimulator::play(const Strategy& s, const PipelineTimes& times,
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

PlanSimulator::Played PlanSimulator::pipeline(const Strategy& s, const PipelinePrice& price) {
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

Plan PlanSimulator::simulate(const Strategy& strategy) {
  Plan plan{strategy, model_.estimate(strategy), 0};
  StepTime& time = plan.estimate.time;
  plan.closed_form_s = time.step_s;
  const PipelinePrice price = model_.pipeline(strategy);
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

std::vector<int64_t> balanced_stages(CostModel& model, const Strategy& s) {
  const ModelShape& shape = model.workload().model;
  const bool alike = shape.experts == 0 || shape.dense_layers == 0;
  if (s.pp == 1 || s.virtual_stages > 1 || !alike || !s.stage_layers.empty()) return {};
  const PassTimes layer = model.pass_times(s, shape.experts > 0);
  const double layer_s = layer.forward_s + layer.backward_s;
  const PipelinePrice price = model.pipeline(s);
  std::vector<int64_t> even, layers(static_cast<size_t>(s.pp), 0);
  std::vector<double> seconds;
  for (size_t i = 0; i < price.stages.size(); ++i) {
    even.push_back(even_stage_layers(shape.layers, s.pp, static_cast<int64_t>(i)));
    const PassTimes& stage = price.stages[i];
    seconds.push_back(std::max(
        0.0, stage.forward_s + stage.backward_s - static_cast<double>(even.back()) * layer_s));
  }
  // Every stage has one layer; each of the others goes where the stage is shortest then.
  for (double& stage : seconds) stage += layer_s;
  std::fill(layers.begin(), layers.end(), 1);
  for (int64_t i = s.pp; i < shape.layers; ++i) {
    const auto shortest = std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
    ++layers[static_cast<size_t>(shortest)];
    seconds[static_cast<size_t>(shortest)] += layer_s;
  }
  return layers == even ? std::vector<int64_t>{} : layers;
}

std::vector<Plan> simulate_plans(const Workload& workload, std::span<const Strategy> strategies,
                                 int64_t limit, int threads) {
  std::deque<PlanSimulator> simulators;
  for (int t = 0; t < threads; ++t) simulators.emplace_back(workload);
  std::vector<Plan> plans(strategies.size());
  in_parallel(strategies.size(), threads, [&](size_t i, size_t thread) {
    PlanSimulator& simulator = simulators[thread];
    plans[i] = simulator.simulate(strategies[i]);
    Strategy balanced = strategies[i];
    balanced.stage_layers = balanced_stages(simulator.model(), balanced);
    if (balanced.stage_layers.empty()) return;
    Plan other = simulator.simulate(balanced);
    if (other.step_s() < plans[i].step_s() && other.peak_bytes() <= limit) {
      plans[i] = std::move(other);
    }
  });
  return plans;
}

}  // namespace tessera
