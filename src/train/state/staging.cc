#include "train/state/staging.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "train/state/snapshot_memory.h"

namespace tessera {
namespace {

using Stretch = StagingLayout::Stretch;

// From its first element to behind its last, in bytes of its buffer; others may lie between.
Stretch hull_of(const StateBox& box, int64_t element) {
  int64_t last = box.place.first;
  for (size_t d = 0; d < box.place.box.dims(); ++d) {
    last += (box.place.box.shape[d] - 1) * box.place.strides[d];
  }
  return {box.bucket, box.part, box.place.first * element, (last - box.place.first + 1) * element,
          0};
}

bool before(const Stretch& a, const Stretch& b) {
  return std::tie(a.bucket, a.part, a.first) < std::tie(b.bucket, b.part, b.first);
}

// Those that touch or overlap become one.
std::vector<Stretch> joined(std::vector<Stretch> hulls) {
  std::ranges::sort(hulls, before);
  std::vector<Stretch> stretches;
  for (const Stretch& hull : hulls) {
    Stretch* const last = stretches.empty() ? nullptr : &stretches.back();
    const bool touches = last != nullptr && last->bucket == hull.bucket &&
                         last->part == hull.part && hull.first <= last->first + last->size;
    if (touches) {
      last->size = std::max(last->size, hull.first + hull.size - last->first);
    } else {
      stretches.push_back(hull);
    }
  }
  return stretches;
}

int64_t most_bytes(const CheckpointSpec& checkpoint) {
  return static_cast<int64_t>(checkpoint.memory_gib * static_cast<double>(int64_t{1} << 30));
}

// What each rank takes where copies are made.
std::vector<int64_t> bytes_of_copies(const CheckpointSpec& checkpoint, const StateLayout& layout,
                                     const SavePlan& plan) {
  std::vector<int64_t> bytes(layout.ranks.size());
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    const StagingLayout mine = lay_out_staging(layout, plan, static_cast<int>(rank));
    bytes[rank] =
        checkpoint.memory_every > 0 ? SnapshotMemory::bytes_for(mine.copy_bytes) : mine.copy_bytes;
    if (checkpoint.async) bytes[rank] += mine.buffer_bytes;
  }
  return bytes;
}

}  // namespace

StagingLayout lay_out_staging(const StateLayout& layout, const SavePlan& plan, int rank) {
  std::map<std::pair<std::string, Box>, const StateBox*> boxes;
  for (const StateBox& box : layout.ranks[static_cast<size_t>(rank)]) {
    boxes[{layout.tensors[box.tensor].name, box.place.box}] = &box;
  }
  StagingLayout staging;
  std::vector<Stretch> hulls;
  std::vector<const StateBox*> written;
  for (const HeldBox& held : plan.writes[static_cast<size_t>(rank)]) {
    const TensorHead& tensor = plan.tensors[held.tensor];
    const auto found = boxes.find({tensor.name, held.box});
    TESSERA_CHECK(found != boxes.end(), "rank {} does not hold {} of '{}'", rank,
                  box_text(held.box), tensor.name);
    written.push_back(found->second);
    hulls.push_back(hull_of(*found->second, size_bits(tensor.type) / 8));
  }
  staging.stretches = joined(hulls);
  for (Stretch& stretch : staging.stretches) {
    stretch.at = staging.copy_bytes;
    staging.copy_bytes += stretch.size;
  }
  for (size_t i = 0; i < written.size(); ++i) {
    const auto behind = std::ranges::upper_bound(staging.stretches, hulls[i], before);
    TESSERA_CHECK(behind != staging.stretches.begin(), "a box without a place");
    const Stretch& home = *std::prev(behind);
    Placed place = written[i]->place;
    place.first = 0;
    staging.chunks.push_back({home.at + hulls[i].first - home.first, std::move(place)});
  }
  staging.buffer_bytes = write_buffer_bytes(bytes_written(plan, rank));
  return staging;
}

bool saves_beside_steps(const CheckpointSpec& checkpoint, const StateLayout& layout,
                        const SavePlan& plan) {
  if (!checkpoint.async || checkpoint.memory_gib == 0) return checkpoint.async;
  return std::ranges::max(bytes_of_copies(checkpoint, layout, plan)) <= most_bytes(checkpoint);
}

std::vector<int64_t> planned_staging(const CheckpointSpec& checkpoint, const StepGraph& step) {
  const std::vector<int64_t> none(static_cast<size_t>(step.mesh.world()), 0);
  const bool in_memory = checkpoint.memory_every > 0;
  if (!checkpoint.on() || (!checkpoint.async && !in_memory)) return none;
  const StateLayout layout = lay_out_state(step);
  std::vector<int64_t> bytes = bytes_of_copies(checkpoint, layout, plan_save(layout));
  if (checkpoint.memory_gib == 0) return bytes;
  const auto most = std::ranges::max_element(bytes);
  if (*most <= most_bytes(checkpoint)) return bytes;
  require_config(!in_memory,
                 "checkpoint.memory_gib is {}, but the snapshots that memory_every = {} keeps take "
                 "{} ({} bytes) on rank {}: raise it, or set memory_every = 0",
                 checkpoint.memory_gib, checkpoint.memory_every, human_bytes(*most), *most,
                 most - bytes.begin());
  return none;
}

Staging::Staging(RankDevice& device, StagingLayout layout)
    : layout_(std::move(layout)),
      memory_(device.allocate_staging("checkpoint staging", layout_.bytes())),
      copies_{memory_.data()},
      buffer_(memory_.data() + layout_.copy_bytes, static_cast<size_t>(layout_.buffer_bytes)) {}

Staging::Staging(RankDevice& device, StagingLayout layout, std::shared_ptr<const void> owner,
                 std::vector<std::byte*> copies, bool writes)
    : layout_(std::move(layout)),
      memory_(device.allocate_staging("checkpoint staging", writes ? layout_.buffer_bytes : 0)),
      owner_(std::move(owner)),
      copies_(std::move(copies)),
      buffer_(memory_.data(), static_cast<size_t>(memory_.size_bytes())) {}

void Staging::fill(const Executor& executor, size_t copy, const std::function<void()>& halfway) {
  std::vector<BufferCopy> copies;
  for (const StagingLayout::Stretch& stretch : layout_.stretches) {
    const BucketBuffers& buffers = executor.program().buckets[stretch.bucket];
    copies.push_back({buffer_of(buffers, stretch.part), stretch.first, stretch.size,
                      copies_.at(copy) + stretch.at});
  }
  const std::span<const BufferCopy> all = copies;
  const size_t first = halfway ? all.size() / 2 : all.size();
  executor.copy_out(all.subspan(0, first));
  if (!halfway) return;
  halfway();
  executor.copy_out(all.subspan(first));
}

ChunkSource Staging::source(size_t copy) const {
  const auto next = std::make_shared<size_t>(0);
  return [this, next, memory = copies_.at(copy)](const HeldBox& held) -> ChunkMemory {
    const StagingLayout::Chunk& chunk = layout_.chunks.at((*next)++);
    TESSERA_CHECK(chunk.place.box == held.box, "{} is asked for, but {} is next",
                  box_text(held.box), box_text(chunk.place.box));
    return {memory + chunk.at, chunk.place};
  };
}

}  // namespace tessera
