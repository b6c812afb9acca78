#include "compile/pipeline/schedule/named_schedule.h"

namespace tessera {

TESSERA_SCHEDULE(10, kNaive, "naive");

namespace {

// One micro-batch at a time: the others begin when its backward is back at the first stage.
// Only one rank works at any time.
std::vector<StageAction> rank_actions(const PipelineShape& shape, int rank) {
  std::vector<StageAction> actions;
  for (int m = 0; m < shape.micro_batches; ++m) {
    actions.push_back({StagePass::kForward, rank, m});
    actions.push_back({StagePass::kBackward, rank, m});
  }
  return actions;
}

}  // namespace

template <>
NamedSchedule define_schedule<PipelineKind::kNaive>() {
  return {.actions = rank_actions};
}

}  // namespace tessera
