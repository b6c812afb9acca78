// The copy of its part that a rank takes between two steps, so that the next step may change the
// original while the copy is written. The memory is taken once, when the run begins.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/executor.h"
#include "tensor/arena.h"
#include "train/state/rank_state.h"

namespace tessera {

// What is copied, and where it lies in the copy. Pure. Stretches of buffers are copied as they are,
// few and long: putting the boxes together is left to whoever writes them.
struct StagingLayout {
  // Bytes [first, first + size) of the buffer of a bucket.
  struct Stretch {
    size_t bucket = 0;
    StatePart part = StatePart::kWeights;
    int64_t first = 0, size = 0;
    int64_t at = 0;  // in the copy
  };
  // Where one of the boxes that the rank writes lies.
  struct Chunk {
    int64_t at = 0;  // byte that its places count from
    Placed place;
  };
  std::vector<Stretch> stretches;
  std::vector<Chunk> chunks;  // in the order of SavePlan::writes
  int64_t copy_bytes = 0;
  int64_t buffer_bytes = 0;  // behind it: what the file is collected in

  [[nodiscard]] int64_t bytes() const { return copy_bytes + buffer_bytes; }  // all that is taken
};
StagingLayout lay_out_staging(const StateLayout& layout, const SavePlan& plan, int rank);

// Whether steps go on while a save is written: that is asked for, and no rank's copy would take
// more than checkpoint.memory_gib. The same on every rank.
bool saves_beside_steps(const CheckpointSpec& checkpoint, const StateLayout& layout,
                        const SavePlan& plan);

// Memory of the host that each rank takes for its saves, from the beginning of the run to its end.
// Throws ConfigError where snapshots in memory take more than checkpoint.memory_gib.
std::vector<int64_t> planned_staging(const CheckpointSpec& checkpoint, const StepGraph& step);

// One thread fills a copy while no other reads it. Of a GPU the memory is pinned.
class Staging {
 public:
  // Takes memory for one copy, and for what a file is collected in.
  Staging(RankDevice& device, StagingLayout layout);
  // The copies lie in memory of `owner`: layout.copy_bytes at each of these. `writes`: whether a
  // file is ever made of one.
  Staging(RankDevice& device, StagingLayout layout, std::shared_ptr<const void> owner,
          std::vector<std::byte*> copies, bool writes);

  [[nodiscard]] int64_t bytes() const { return memory_.size_bytes(); }  // taken by this
  // Between steps: waits for the device and for the copy. `halfway` is called in the middle of it.
  void fill(const Executor& executor, size_t copy = 0,
            const std::function<void()>& halfway = nullptr);
  // For write_shard(), of what fill() copied. It must not outlive this.
  [[nodiscard]] ChunkSource source(size_t copy = 0) const;
  [[nodiscard]] std::span<std::byte> write_buffer() const { return buffer_; }

 private:
  StagingLayout layout_;
  HostArena memory_;
  std::shared_ptr<const void> owner_;
  std::vector<std::byte*> copies_;
  std::span<std::byte> buffer_;
};

}  // namespace tessera
