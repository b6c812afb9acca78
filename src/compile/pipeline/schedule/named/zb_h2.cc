#include <algorithm>

#include "compile/pipeline/schedule/zero_bubble.h"

namespace tessera {

TESSERA_SCHEDULE(60, kZbH2, "zb-h2");

namespace {

// ZB-H2 (Qi et al., 2023): warm-up and lag twice those of ZB-H1 fill the time until the first
// gradient arrives and after the last one left. No rank is idle between its first and its last
// action; 2 * ranks - 1 micro-batches are alive on every rank.
std::vector<StageAction> rank_actions(const PipelineShape& shape, int rank) {
  return split_backward_actions(rank, shape.micro_batches, 2 * (shape.ranks - 1 - rank), 2 * rank);
}

int64_t live(const PlaceInPipeline& at) { return std::min(at.micro_batches, 2 * at.ranks - 1); }

double idle(int64_t /*virtual_stages*/, double weight) { return std::max(0.0, 1 - 3 * weight); }

}  // namespace

template <>
NamedSchedule define_schedule<PipelineKind::kZbH2>() {
  return {.actions = rank_actions, .live = live, .idle = idle};
}

}  // namespace tessera
