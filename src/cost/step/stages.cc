#include "cost/step/stages.h"

#include <algorithm>

namespace tessera {
namespace {

// Zero-bubble V and DualPipe V go down the ranks and up again; others start from the top each time.
bool is_v_shaped(const Strategy& s) {
  return s.schedule == PipelineKind::kZbV || s.schedule == PipelineKind::kDualPipeV;
}

}  // namespace

int64_t rank_of_stage(const Strategy& s, int64_t stage) {
  const int64_t place = stage % s.pp;
  return is_v_shaped(s) && stage / s.pp % 2 == 1 ? s.pp - 1 - place : place;
}

int64_t stage_of_rank(const Strategy& s, int64_t rank, int64_t chunk) {
  if (is_v_shaped(s) && chunk % 2 == 1) return (chunk + 1) * s.pp - 1 - rank;
  return chunk * s.pp + rank;
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
  for (int64_t chunk = 0; chunk < s_.virtual_stages; ++chunk) {
    const RankLayers stage = of_stage(stage_of_rank(s_, rank, chunk));
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

int64_t live_micro_batches(const Strategy& s, int64_t rank, int64_t micro_batches) {
  const int64_t p = s.pp, v = s.virtual_stages, m = micro_batches;
  if (p == 1) return 1;
  switch (s.schedule) {
    case PipelineKind::kNaive:
      return 1;
    case PipelineKind::kGPipe:
      return m * v;
    case PipelineKind::k1F1B:
    case PipelineKind::kPipedream:
    case PipelineKind::kPipedream2bw:
    case PipelineKind::kInterleaved:
      if (v > 1) return std::min(m * v, 2 * (p - rank - 1) + (v - 1) * p + 1);
      return std::min(m, p - rank);
    case PipelineKind::kZbH1:
      return std::min(m, p);
    case PipelineKind::kZbH2:
      return std::min(m, 2 * p - 1);
    case PipelineKind::kZbV:
      return std::min(m * v, p * v);  // of half the size
    case PipelineKind::kDualPipeV:
      return std::min(m * v, p * v + 1);
  }
  return m;
}

}  // namespace tessera
