#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "compile/pipeline/schedule/named_schedule.h"

namespace tessera {

TESSERA_SCHEDULE(40, kInterleaved, "interleaved", .virtual_stages = 2, .any_virtual_stages = true);

namespace {

struct ChunkOfBatch {
  int chunk;
  int micro_batch;
};

// The order of forwards: a group of micro-batches through chunk 0, then through chunk 1, …
std::vector<ChunkOfBatch> forward_order(const PipelineShape& shape) {
  std::vector<ChunkOfBatch> order;
  for (int begin = 0; begin < shape.micro_batches; begin += shape.group) {
    const int end = std::min(begin + shape.group, shape.micro_batches);
    for (int chunk = 0; chunk < shape.virtual_stages; ++chunk) {
      for (int m = begin; m < end; ++m) order.push_back({chunk, m});
    }
  }
  return order;
}

// A last group smaller than `ranks` would be asked for by the second chunk of the first rank before
// the last rank has it.
bool is_valid_group(int group, const PipelineShape& shape) {
  const int rest = shape.micro_batches % group;
  return group >= shape.ranks && group <= shape.micro_batches && (rest == 0 || rest >= shape.ranks);
}

// There is one, the number of micro-batches, where there are at least as many as ranks.
int nearest_valid_group(const PipelineShape& shape) {
  int nearest = shape.micro_batches;
  for (int group = shape.ranks; group < shape.micro_batches; ++group) {
    const bool nearer = std::abs(group - shape.group) < std::abs(nearest - shape.group);
    if (nearer && is_valid_group(group, shape)) nearest = group;
  }
  return nearest;
}

void check(const PipelineShape& shape) {
  require_config(shape.micro_batches >= shape.ranks,
                 "schedule interleaved: {} micro-batches are fewer than the {} ranks; use {} "
                 "micro-batches, or schedule = \"1f1b\"",
                 shape.micro_batches, shape.ranks, shape.ranks);
  if (is_valid_group(shape.group, shape)) return;
  const int rest = shape.micro_batches % shape.group;
  const int lower = shape.micro_batches - rest;
  require_config(
      shape.group < shape.ranks || shape.group > shape.micro_batches,
      "schedule interleaved: groups of {} leave {} of {} micro-batches for the last one, "
      "fewer than the {} ranks; use {} or {} micro-batches, or schedule_group = {}",
      shape.group, rest, shape.micro_batches, shape.ranks, lower, lower + shape.ranks,
      nearest_valid_group(shape));
  throw ConfigError(
      fmt::format("schedule interleaved: groups of {} micro-batches, but a group has at least {} "
                  "(the ranks) and at most {} (the micro-batches); use schedule_group = {}",
                  shape.group, shape.ranks, shape.micro_batches, nearest_valid_group(shape)));
}

// Chunk c of a rank is stage c * ranks + rank. The warm-up is twice as long per rank as that of
// 1F1B: with less, the second chunk's forward of a group would not have arrived when it is due.
std::vector<StageAction> rank_actions(const PipelineShape& shape, int rank) {
  const std::vector<ChunkOfBatch> order = forward_order(shape);
  const int total = static_cast<int>(order.size());
  const int warmup =
      std::min(2 * (shape.ranks - 1 - rank) + (shape.virtual_stages - 1) * shape.group, total);
  std::vector<StageAction> actions;
  const auto forward = [&](int k) {
    const auto [chunk, m] = order[static_cast<size_t>(k)];
    actions.push_back({StagePass::kForward, chunk * shape.ranks + rank, m});
  };
  const auto backward = [&](int k) {
    const auto [chunk, m] = order[static_cast<size_t>(k)];
    const int mirrored = shape.virtual_stages - 1 - chunk;
    actions.push_back({StagePass::kBackward, mirrored * shape.ranks + rank, m});
  };
  for (int k = 0; k < warmup; ++k) forward(k);
  for (int k = warmup; k < total; ++k) {
    forward(k);
    backward(k - warmup);
  }
  for (int k = total - warmup; k < total; ++k) backward(k);
  return actions;
}

int64_t live(const PlaceInPipeline& at) {
  const auto& [rank, ranks, virtual_stages, micro_batches] = at;
  if (virtual_stages == 1) return std::min(micro_batches, ranks - rank);
  const int64_t warmup = 2 * (ranks - 1 - rank) + (virtual_stages - 1) * ranks;
  return std::min(micro_batches * virtual_stages, warmup + 1);
}

double idle(int64_t virtual_stages, double /*weight*/) {
  return 1 / static_cast<double>(virtual_stages);
}

}  // namespace

template <>
NamedSchedule define_schedule<PipelineKind::kInterleaved>() {
  return {.actions = rank_actions, .check = check, .live = live, .idle = idle};
}

}  // namespace tessera
