#include "compile/pipeline/schedule/named_schedule.h"

namespace tessera {

TESSERA_SCHEDULE(20, kGPipe, "gpipe");

namespace {

// All forwards, then all backwards: every micro-batch is alive at once. Backwards run in the order
// of the forwards, not in reverse, so that gradients add up as in the other schedules.
std::vector<StageAction> rank_actions(const PipelineShape& shape, int rank) {
  std::vector<StageAction> actions;
  for (const StagePass pass : {StagePass::kForward, StagePass::kBackward}) {
    for (int m = 0; m < shape.micro_batches; ++m) actions.push_back({pass, rank, m});
  }
  return actions;
}

int64_t live(const PlaceInPipeline& at) { return at.micro_batches * at.virtual_stages; }

}  // namespace

template <>
NamedSchedule define_schedule<PipelineKind::kGPipe>() {
  return {.actions = rank_actions, .live = live};
}

}  // namespace tessera
