#include "compile/pipeline/schedule/replay.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace tessera {
namespace {

constexpr double kNever = -1;

StageProduct output(int stage, int micro_batch) {
  return {StageProduct::Kind::kOutput, stage, micro_batch};
}
StageProduct input_gradient(int stage, int micro_batch) {
  return {StageProduct::Kind::kInputGradient, stage, micro_batch};
}

// Ranks wait in `work_` until they are tried; a rank is tried again when a neighbouring stage made
// something. Begin times do not depend on that order.
class Replay {
 public:
  Replay(const PipelineSchedule& schedule, const PassCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        made_at_(2 * count(schedule.stages) * count(schedule.micro_batches), kNever) {
    timeline_.ranks.resize(schedule.actions.size());
    for (size_t rank = 0; rank < schedule.actions.size(); ++rank) {
      timeline_.ranks[rank].reserve(schedule.actions[rank].size());
    }
  }

  ScheduleTimeline run() {
    for (int rank = 0; rank < schedule_.ranks; ++rank) work_.push_back(rank);
    while (!work_.empty()) {
      const int rank = work_.back();
      work_.pop_back();
      while (advance(rank)) {
      }
    }
    return std::move(timeline_);
  }

 private:
  static size_t count(int value) { return static_cast<size_t>(value); }

  double& made_at(const StageProduct& product) {
    const size_t kind = product.kind == StageProduct::Kind::kOutput ? 0 : 1;
    const size_t row = kind * count(schedule_.stages) + count(product.stage);
    return made_at_[row * count(schedule_.micro_batches) + count(product.micro_batch)];
  }

  // When everything that `action` needs has arrived at `rank`, or kNever.
  double ready_at(const StageAction& action, int rank) {
    double ready = 0;
    for (const StageProduct& product : needs(action, schedule_.stages)) {
      const double made = made_at(product);
      if (made == kNever) return kNever;
      const bool here = schedule_.rank_of_stage[count(product.stage)] == rank;
      ready = std::max(ready, made + (here ? 0 : costs_.transfer_of(product)));
    }
    return ready;
  }

  bool advance(int rank) {
    std::vector<TimedAction>& done = timeline_.ranks[count(rank)];
    const std::vector<StageAction>& actions = schedule_.actions[count(rank)];
    if (done.size() == actions.size()) return false;
    const StageAction& action = actions[done.size()];
    const double ready = ready_at(action, rank);
    if (ready == kNever) return false;
    const double begin = std::max(ready, done.empty() ? 0 : done.back().end);
    const double end = begin + costs_.of(action);
    done.push_back({action, begin, end});
    timeline_.makespan = std::max(timeline_.makespan, end);
    publish(action, end);
    return true;
  }

  void publish(const StageAction& action, double end) {
    const auto& [pass, stage, micro_batch] = action;
    if (pass == StagePass::kWeightGrad) return;
    const bool forward = pass == StagePass::kForward;
    double& made =
        made_at(forward ? output(stage, micro_batch) : input_gradient(stage, micro_batch));
    if (made == kNever) made = end;
    const int neighbour = forward ? stage + 1 : stage - 1;
    if (neighbour < 0 || neighbour >= schedule_.stages) return;
    work_.push_back(schedule_.rank_of_stage[count(neighbour)]);
  }

  const PipelineSchedule& schedule_;
  const PassCosts& costs_;
  std::vector<double> made_at_;
  std::vector<int> work_;
  ScheduleTimeline timeline_;
};

RankFacts facts_of_rank(const std::vector<TimedAction>& actions) {
  RankFacts facts;
  int live = 0;
  for (const TimedAction& timed : actions) {
    facts.busy += timed.end - timed.begin;
    switch (timed.action.pass) {
      case StagePass::kForward:
        facts.peak_live = std::max(facts.peak_live, ++live);
        break;
      case StagePass::kBackward:
      case StagePass::kWeightGrad:
        --live;
        break;
      case StagePass::kInputGrad:
        break;
    }
  }
  if (!actions.empty()) {
    facts.idle_inside = actions.back().end - actions.front().begin - facts.busy;
  }
  return facts;
}

}  // namespace

StageNeeds needs(const StageAction& action, int stages) {
  const auto& [pass, stage, micro_batch] = action;
  StageNeeds products;
  switch (pass) {
    case StagePass::kForward:
      if (stage > 0) products.add(output(stage - 1, micro_batch));
      break;
    case StagePass::kBackward:
    case StagePass::kInputGrad:
      products.add(output(stage, micro_batch));
      if (stage + 1 < stages) products.add(input_gradient(stage + 1, micro_batch));
      break;
    case StagePass::kWeightGrad:
      products.add(input_gradient(stage, micro_batch));
      break;
  }
  return products;
}

double PassCosts::of(const StageAction& action) const {
  const StageCosts stage = stages.empty() ? StageCosts{forward, input_grad, weight_grad}
                                          : stages.at(static_cast<size_t>(action.stage));
  switch (action.pass) {
    case StagePass::kForward:
      return stage.forward;
    case StagePass::kBackward:
      return stage.input_grad + stage.weight_grad;
    case StagePass::kInputGrad:
      return stage.input_grad;
    case StagePass::kWeightGrad:
      return stage.weight_grad;
  }
  return 0;
}

double PassCosts::transfer_of(const StageProduct& product) const {
  if (transfers.empty()) return transfer;
  const bool forward = product.kind == StageProduct::Kind::kOutput;
  return transfers.at(static_cast<size_t>(forward ? product.stage : product.stage - 1));
}

ScheduleTimeline replay(const PipelineSchedule& schedule, const PassCosts& costs) {
  TESSERA_CHECK(costs.stages.empty() || costs.stages.size() == static_cast<size_t>(schedule.stages),
                "costs of {} stages for {}", costs.stages.size(), schedule.stages);
  return Replay(schedule, costs).run();
}

ScheduleFacts facts_of(const ScheduleTimeline& timeline) {
  ScheduleFacts facts{.makespan = timeline.makespan, .bubble = 0, .peak_live = 0, .ranks = {}};
  double busy = 0;
  for (const std::vector<TimedAction>& actions : timeline.ranks) {
    facts.ranks.push_back(facts_of_rank(actions));
    busy += facts.ranks.back().busy;
    facts.peak_live = std::max(facts.peak_live, facts.ranks.back().peak_live);
  }
  const double available = timeline.makespan * static_cast<double>(timeline.ranks.size());
  if (available > 0) facts.bubble = 1 - busy / available;
  return facts;
}

}  // namespace tessera
