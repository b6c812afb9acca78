// The copy of its part that a rank takes between two steps, so that the next step may change the
// original while the copy is written. The memory is taken once, when the run begins.
#pragma once

#include <cstdint>
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

// One thread fills it while no other reads it. Of a GPU the memory is pinned.
class Staging {
 public:
  Staging(RankDevice& device, StagingLayout layout);

  [[nodiscard]] int64_t bytes() const { return memory_.size_bytes(); }
  // Between steps: waits for the device and for the copy.
  void fill(const Executor& executor);
  // For write_shard(), of what fill() copied. It must not outlive this.
  [[nodiscard]] ChunkSource source() const;
  [[nodiscard]] std::span<std::byte> write_buffer() const;

 private:
  StagingLayout layout_;
  HostArena memory_;
};

}  // namespace tessera
