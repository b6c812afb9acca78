#include <algorithm>

#include "compile/pipeline/schedule/v_rank.h"

namespace tessera {

TESSERA_SCHEDULE(70, kZbV, "zb-v", .virtual_stages = 2);

namespace {

void repeat(int times, auto&& what) {
  for (int i = 0; i < times; ++i) what();
}

// ZB-V (Qi et al., 2024). No rank is idle between its first and its last action when all passes
// take equally long, with the activation memory of 1F1B's first rank on every rank.
std::vector<StageAction> rank_actions(const PipelineShape& shape, int rank) {
  // The warm-up below uses this many; those beyond the real number are dropped at the end.
  const int micro_batches = std::max(2 * shape.ranks - 1, shape.micro_batches);
  const int behind = shape.ranks - rank;
  VRank v(shape, rank);
  const auto down = [&] {
    v.input_grad(Chunk::kDown);
    v.weight_grad(Chunk::kDown);
  };
  const auto forward_and_up = [&] {
    v.forward(Chunk::kUp);
    v.input_grad(Chunk::kUp);
    v.weight_grad(Chunk::kUp);
  };

  repeat(2 * behind - 1, [&] { v.forward(Chunk::kDown); });
  repeat(rank, [&] {
    v.forward(Chunk::kUp);
    v.forward(Chunk::kDown);
  });
  repeat(behind, forward_and_up);
  while (v.forwards(Chunk::kUp) < micro_batches) {
    if (v.forwards(Chunk::kDown) < micro_batches) v.forward(Chunk::kDown);
    down();
    forward_and_up();
  }
  repeat(rank, [&] {
    v.input_grad(Chunk::kDown);
    v.input_grad(Chunk::kUp);
  });
  repeat(behind, down);
  for (const Chunk chunk : {Chunk::kUp, Chunk::kDown}) {
    while (v.is_due(chunk)) v.weight_grad(chunk);
  }

  std::vector<StageAction> actions = v.finish();
  std::erase_if(actions,
                [&](const StageAction& a) { return a.micro_batch >= shape.micro_batches; });
  return actions;
}

// Each half the size of 1F1B's.
int64_t live(const PlaceInPipeline& at) {
  return std::min(at.micro_batches, at.ranks) * at.virtual_stages;
}

double idle(int64_t /*virtual_stages*/, double weight) { return std::max(0.0, 1 - 3 * weight); }

}  // namespace

template <>
NamedSchedule define_schedule<PipelineKind::kZbV>() {
  return {.actions = rank_actions, .placement = StagePlacement::kV, .live = live, .idle = idle};
}

}  // namespace tessera
