#include <algorithm>

#include "compile/pipeline/schedule/named_schedule.h"

namespace tessera {

TESSERA_SCHEDULE(30, k1F1B, "1f1b");

namespace {

// A rank runs ahead by as many forwards as there are ranks behind it, then one forward and one
// backward in turn: at most ranks - rank micro-batches are alive.
std::vector<StageAction> rank_actions(const PipelineShape& shape, int rank) {
  const int micro_batches = shape.micro_batches;
  const int warmup = std::min(shape.ranks - 1 - rank, micro_batches);
  std::vector<StageAction> actions;
  for (int m = 0; m < warmup; ++m) actions.push_back({StagePass::kForward, rank, m});
  for (int m = warmup; m < micro_batches; ++m) {
    actions.push_back({StagePass::kForward, rank, m});
    actions.push_back({StagePass::kBackward, rank, m - warmup});
  }
  for (int m = micro_batches - warmup; m < micro_batches; ++m) {
    actions.push_back({StagePass::kBackward, rank, m});
  }
  return actions;
}

int64_t live(const PlaceInPipeline& at) { return std::min(at.micro_batches, at.ranks - at.rank); }

}  // namespace

template <>
NamedSchedule define_schedule<PipelineKind::k1F1B>() {
  return {.actions = rank_actions, .live = live};
}

}  // namespace tessera
