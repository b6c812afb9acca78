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

// At every change, ascending; what is there all the time (weights, optimizer, gradients with an
// arena of their own) is not in it.
std::vector<MemoryPoint> memory_curve(const RankTimeline& rank);

}  // namespace tessera
