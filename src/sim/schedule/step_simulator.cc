#include "sim/schedule/step_simulator.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

// Stages times micro-batches that are played; longer steps go on as these end.
constexpr int64_t kPlayedCells = 1 << 14;

int64_t micro_batches_of(const Workload& w, const Strategy& s) {
  return std::max<int64_t>(1, w.global_batch / (s.dp * s.micro_batch));
}

PipelineKind schedule_of(const Strategy& s) {
  return s.one_micro_batch_at_a_time ? PipelineKind::kNaive : s.schedule;
}

PipelineTimes times_of(const PipelineSeconds& price) {
  PipelineTimes times;
  for (const PassTimes& stage : price.stages) {
    times.stages.push_back({stage.forward_s, stage.backward_s - stage.weight_grad_s,
                            stage.weight_grad_s, stage.early_forward_s, stage.early_backward_s,
                            stage.after_gradient_s});
  }
  for (const MessageSeconds& message : price.messages) {
    times.messages.push_back({message.latency_s, message.wire_s});
  }
  return times;
}

}  // namespace

StepSimulator::StepSimulator(Workload workload, ScheduleTapes* tapes)
    : model_(std::move(workload)),
      own_tapes_(tapes == nullptr ? std::make_unique<ScheduleTapes>() : nullptr),
      tapes_(tapes == nullptr ? own_tapes_.get() : tapes) {}

StepSimulator::Played StepSimulator::play(const ScheduleTapes::Key& key,
                                          const PipelineTimes& times) {
  const PipelineOutcome outcome = model_.workload().engine.messages_in_order != 0
                                      ? tapes_->program(key).run(times)
                                      : simulator_.run(tapes_->schedule(key), times);
  return {outcome.makespan, outcome.busiest};
}

StepSimulator::Played StepSimulator::pipeline(const Strategy& s, const PipelineSeconds& price) {
  const int64_t all = micro_batches_of(model_.workload(), s);
  if (s.pp == 1) {
    const PassTimes& stage = price.stages.front();
    const double work = static_cast<double>(all) * (stage.forward_s + stage.backward_s);
    return {work, work};
  }
  const PipelineTimes times = times_of(price);
  const auto of = [&](int64_t micro_batches) {
    return play({schedule_of(s), s.pp, s.virtual_stages, micro_batches}, times);
  };
  const int64_t rounds = std::max<int64_t>(4, kPlayedCells / (s.pp * s.pp * s.virtual_stages));
  if (all <= rounds * s.pp) return of(all);
  // A long step repeats itself in its middle: as many micro-batches more take as much time more.
  const int64_t some = rounds * s.pp + all % s.pp;
  const Played played = of(some);
  const double one_round = played.makespan_s - of(some - s.pp).makespan_s;
  return {played.makespan_s + one_round * static_cast<double>((all - some) / s.pp),
          played.busiest_s * (static_cast<double>(all) / static_cast<double>(some))};
}

SimulatedStep StepSimulator::simulate(const Strategy& strategy) {
  SimulatedStep step{model_.estimate(strategy), 0};
  StepTime& time = step.estimate.time;
  step.closed_form_s = time.step_s;
  const PipelineSeconds price = model_.pipeline(strategy);
  const Played played = pipeline(strategy, price);
  time.exposed_s = price.exposed_s;
  time.bubble_s = std::max(0.0, played.makespan_s - played.busiest_s);
  time.step_s = played.busiest_s + time.bubble_s + price.once_s;
  double exposed_s = 0;
  for (const double axis : time.exposed_s) exposed_s += axis;
  const double closed_form_compute_s = time.compute_s;
  time.compute_s = time.step_s - time.bubble_s - exposed_s - time.optimizer_s;
  if (closed_form_compute_s > 0) time.forward_s *= time.compute_s / closed_form_compute_s;
  if (time.step_s < time.link_s) {  // the rest of the time is spent waiting for bytes
    time.exposed_s[static_cast<size_t>(time.link_axis)] += time.link_s - time.step_s;
    time.step_s = time.link_s;
  }
  const double slower = time.step_s / step.closed_form_s;
  step.estimate.mfu /= slower;
  step.estimate.hfu /= slower;
  step.estimate.tokens_per_s /= slower;
  step.estimate.flops_per_device_s /= slower;
  return step;
}

}  // namespace tessera
