#include <algorithm>

#include "compile/pipeline/schedule/zero_bubble.h"

namespace tessera {

TESSERA_SCHEDULE(50, kZbH1, "zb-h1");

namespace {

// ZB-H1 (Qi et al., 2023): the memory of 1F1B's first rank on every rank, a third of its bubble.
std::vector<StageAction> rank_actions(const PipelineShape& shape, int rank) {
  return split_backward_actions(rank, shape.micro_batches, shape.ranks - 1 - rank, rank);
}

int64_t live(const PlaceInPipeline& at) { return std::min(at.micro_batches, at.ranks); }

double idle(int64_t /*virtual_stages*/, double weight) { return std::max(0.0, 1 - 2 * weight); }

}  // namespace

template <>
NamedSchedule define_schedule<PipelineKind::kZbH1>() {
  return {.actions = rank_actions, .live = live, .idle = idle};
}

}  // namespace tessera
