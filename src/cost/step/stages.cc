#include "cost/step/stages.h"

#include <algorithm>

#include "compile/pipeline/schedule/named_schedule.h"

namespace tessera {
namespace {

bool is_v_shaped(const Strategy& s) {
  return named_schedule(s.schedule).placement == StagePlacement::kV;
}

// `turns`: every other chunk goes through the ranks backwards.
int64_t stage_at(int64_t ranks, int64_t rank, int64_t chunk, bool turns) {
  return chunk % 2 == 1 && turns ? (chunk + 1) * ranks - 1 - rank : chunk * ranks + rank;
}

}  // namespace

int64_t rank_of_stage(const Strategy& s, int64_t stage) {
  const int64_t place = stage % s.pp;
  return stage / s.pp % 2 == 1 && is_v_shaped(s) ? s.pp - 1 - place : place;
}

int64_t stage_of_rank(const Strategy& s, int64_t rank, int64_t chunk) {
  return stage_at(s.pp, rank, chunk, chunk % 2 == 1 && is_v_shaped(s));
}

RankLayers StageLayers::of_stage(int64_t stage) const {
  const int64_t here = layers_of(stage);
  const int64_t again = s_.stage_recompute.empty()
                            ? 0
                            : std::min(here, s_.stage_recompute[static_cast<size_t>(stage)]);
  if (m_.experts == 0) return {here, 0, again};
  int64_t before = 0;
  for (int64_t i = 0; i < stage && before < m_.dense_layers; ++i) before += layers_of(i);
  const int64_t dense = std::clamp<int64_t>(m_.dense_layers - before, 0, here);
  return {dense, here - dense, again};
}

RankLayers StageLayers::of_rank(int64_t rank) const {
  RankLayers result;
  const bool turns = s_.virtual_stages > 1 && is_v_shaped(s_);
  for (int64_t chunk = 0; chunk < s_.virtual_stages; ++chunk) {
    const RankLayers stage = of_stage(stage_at(s_.pp, rank, chunk, turns));
    result.dense += stage.dense;
    result.experts += stage.experts;
    result.again += stage.again;
  }
  if (s_.recompute == Recompute::kFull && s_.stage_recompute.empty()) {
    const int64_t all = result.total();
    result.again = s_.recompute_layers < 0 ? all : std::min(s_.recompute_layers, all);
  }
  return result;
}

bool fills_with_weight_gradients(const Strategy& s) {
  const auto idle = [&](double weight) { return idle_share(s.schedule, s.virtual_stages, weight); };
  return idle(0.25) < idle(0);
}

int64_t live_micro_batches(const Strategy& s, int64_t rank, int64_t micro_batches) {
  if (s.pp == 1) return 1;
  return live_micro_batches(s.schedule, {.rank = rank,
                                         .ranks = s.pp,
                                         .virtual_stages = s.virtual_stages,
                                         .micro_batches = micro_batches});
}

}  // namespace tessera
