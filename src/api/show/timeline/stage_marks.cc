#include "api/show/timeline/stage_marks.h"

#include <algorithm>
#include <array>

#include "base/index.h"

namespace tessera {
namespace {

MarkKind kind_of(StagePass pass) {
  constexpr std::array<MarkKind, 4> kKinds = {MarkKind::kForward, MarkKind::kBackward,
                                              MarkKind::kInputGrad, MarkKind::kWeightGrad};
  return kKinds[static_cast<size_t>(pass)];
}

// "F3"; of a rank with several stages "F1.3": stage and micro-batch.
std::string label_of(const PipelineSchedule& schedule, const StageAction& action) {
  if (schedule.stages > schedule.ranks) return cell_text(action);
  return fmt::format("{}{}", letter_of(action.pass), action.micro_batch);
}

}  // namespace

std::vector<MarkRow> stage_marks(const PlayedStages& played, int pipeline_rank, Labels& labels) {
  const SimulatedSchedule& pipeline = played.pipeline;
  MarkRow row{"compute", {}};
  for (const TimedAction& timed : pipeline.timeline.ranks[index(pipeline_rank)]) {
    row.marks.push_back({timed.begin, timed.end, kind_of(timed.action.pass),
                         labels.of(label_of(pipeline.schedule, timed.action)),
                         timed.action.micro_batch});
  }
  const double sums_at = pipeline.facts.makespan, update_at = sums_at + played.sums_s;
  if (played.sums_s > 0) {
    row.marks.push_back({sums_at, update_at, MarkKind::kExposed, labels.of("waits for dp")});
  }
  if (played.optimizer_s > 0) {
    row.marks.push_back({update_at, played.end_s(), MarkKind::kUpdate, labels.of("update")});
  }
  return {std::move(row)};
}

std::vector<std::pair<double, int>> live_micro_batches(const PlayedStages& played,
                                                       int pipeline_rank) {
  std::vector<std::pair<double, int>> changes;
  for (const TimedAction& timed : played.pipeline.timeline.ranks[index(pipeline_rank)]) {
    const StagePass pass = timed.action.pass;
    if (pass == StagePass::kForward) changes.emplace_back(timed.begin, +1);
    if (pass == StagePass::kBackward || pass == StagePass::kWeightGrad) {
      changes.emplace_back(timed.end, -1);
    }
  }
  // What ends makes room for what begins at the same time.
  std::sort(changes.begin(), changes.end());
  std::vector<std::pair<double, int>> live = {{0.0, 0}};
  for (const auto& [time, by] : changes) {
    const int count = live.back().second + by;
    if (live.back().first == time) {
      live.back().second = count;
    } else {
      live.emplace_back(time, count);
    }
  }
  return live;
}

}  // namespace tessera
