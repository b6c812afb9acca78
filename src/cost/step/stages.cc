#include "cost/step/stages.h"

#include <algorithm>

#include "compile/pipeline/schedule/named_schedule.h"

namespace tessera {
namespace {

bool is_v_shaped(const Strategy& s) {
  return named_schedule(s.schedule).placement == StagePlacement::kV;
}

int64_t stage_of(const Strategy& s, int64_t rank, int64_t chunk) {
  if (chunk % 2 == 1 && is_v_shaped(s)) return (chunk + 1) * s.pp - 1 - rank;
  return chunk * s.pp + rank;
}

}  // namespace

int64_t even_stage_layers(int64_t layers, int64_t stages, int64_t stage) {
  if (layers % stages == 0) return layers / stages;
  if ((layers + 2) % stages == 0) {
    return (layers + 2) / stages - (stage == 0 ? 1 : 0) - (stage == stages - 1 ? 1 : 0);
  }
  if ((layers + 1) % stages == 0) return (layers + 1) / stages - (stage == stages - 1 ? 1 : 0);
  const auto cut = [&](int64_t i) { return (2 * i * layers + stages) / (2 * stages); };
  return cut(stage + 1) - cut(stage);
}

int64_t rank_of_stage(const Strategy& s, int64_t stage) {
  const int64_t place = stage % s.pp;
  return stage / s.pp % 2 == 1 && is_v_shaped(s) ? s.pp - 1 - place : place;
}

RankLayers layers_of_stage(const ModelShape& m, const Strategy& s, int64_t stage) {
  const int64_t stages = s.pp * s.virtual_stages;
  const auto layers = [&](int64_t i) {
    return s.stage_layers.empty() ? even_stage_layers(m.layers, stages, i)
                                  : s.stage_layers[static_cast<size_t>(i)];
  };
  const int64_t here = layers(stage);
  const int64_t again =
      s.stage_recompute.empty() ? 0 : std::min(here, s.stage_recompute[static_cast<size_t>(stage)]);
  if (m.experts == 0) return {here, 0, here, again};
  int64_t before = 0;
  for (int64_t i = 0; i < stage && before < m.dense_layers; ++i) before += layers(i);
  const int64_t dense = std::clamp<int64_t>(m.dense_layers - before, 0, here);
  return {dense, here - dense, here, again};
}

RankLayers layers_of_rank(const ModelShape& m, const Strategy& s, int64_t rank) {
  RankLayers result;
  for (int64_t chunk = 0; chunk < s.virtual_stages; ++chunk) {
    const RankLayers stage = layers_of_stage(m, s, stage_of(s, rank, chunk));
    result.dense += stage.dense;
    result.experts += stage.experts;
    result.largest_stage = std::max(result.largest_stage, stage.largest_stage);
    result.again += stage.again;
  }
  if (s.recompute == Recompute::kFull && s.stage_recompute.empty()) {
    const int64_t all = result.total();
    result.again = s.recompute_layers < 0 ? all : std::min(s.recompute_layers, all);
  }
  return result;
}

int64_t live_micro_batches(const Strategy& s, int64_t rank, int64_t micro_batches) {
  if (s.pp == 1) return 1;
  return live_micro_batches(s.schedule, {.rank = rank,
                                         .ranks = s.pp,
                                         .virtual_stages = s.virtual_stages,
                                         .micro_batches = micro_batches});
}

}  // namespace tessera
