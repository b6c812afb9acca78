// A step that was simulated instruction by instruction as marks, and how full the memory of its
// ranks is.
#pragma once

#include <cstddef>
#include <vector>

#include "api/show/timeline/marks.h"
#include "sim/replay/step_activity.h"

namespace tessera {

// Instructions that have begun: marks where each is one.
size_t count_instructions(const RankTimeline& rank);

// A row for each stream that does anything. The compute stream has a mark for each kernel, or for
// the kernels of a pass that follow each other without a wait, and one for each wait for
// communication; time without a mark is idle. The others have one for each transfer.
std::vector<MarkRow> instruction_marks(const RankTimeline& rank, const RankActivity& activity,
                                       double makespan, Labels& labels);
std::vector<MarkRow> pass_marks(const RankTimeline& rank, const RankActivity& activity,
                                double makespan, Labels& labels);

// Bytes that hold something which is still needed, weights and optimizer included, from a time on.
struct MemoryUse {
  double time = 0;
  int64_t bytes = 0;
};
// At most about `most` points; the fullest of what lies between two is kept.
std::vector<MemoryUse> memory_use(const RankTimeline& rank, double makespan, size_t most);

}  // namespace tessera
