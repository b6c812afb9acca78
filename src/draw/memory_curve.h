// How much memory holds something that is still needed, over the time of a simulated step: from the
// begin of the instruction that first writes a buffer to the end of the last one that uses it.
#pragma once

#include <vector>

#include "sim/replay/step_replay.h"

namespace tessera {

struct MemoryPoint {
  double time = 0;
  int64_t activations = 0;  // bytes in use from then on, without those of gradients
  int64_t gradients = 0;    // that lie among the activations; both: never more than the arena has
  int64_t communication = 0;
  [[nodiscard]] bool holds_as(const MemoryPoint& other) const {
    return activations == other.activations && gradients == other.gradients &&
           communication == other.communication;
  }
};

// A value in a buffer of activations or of communication: from the instruction that writes it to
// the last one that uses it.
struct BufferLife {
  BufferId buffer = kNoBuffer;
  size_t first = 0, last = 0;  // instructions; `last` is the one that ends last
  double begin = 0, end = 0;
};
// In the order in which they begin. A buffer that is written without being read has a new value;
// the one before it has ended.
std::vector<BufferLife> buffer_lives(const RankTimeline& rank);

// At every change, ascending; what is there all the time (weights, optimizer, gradients with an
// arena of their own) is not in it.
std::vector<MemoryPoint> memory_curve(const RankTimeline& rank);

}  // namespace tessera
