// What every rank of a simulated step does over time, from the times of its instructions: passes of
// kernels, and between them the waits, each for communication that is under way or for other ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/replay/step_replay.h"

namespace tessera {

// Kernels of one micro-batch that follow each other.
enum class SegmentKind : uint8_t {
  kForward,
  kBackward,  // both halves
  kInputGrad,
  kWeightGrad,
  kUpdate,  // once per step: norms, optimizer
};
inline constexpr int kNumSegmentKinds = 5;
char letter_of(SegmentKind kind);  // F, B, I, W or U
std::string_view name_of(SegmentKind kind);

struct Segment {
  SegmentKind kind = SegmentKind::kForward;
  int micro_batch = -1;
  double begin = 0, end = 0;
  size_t first = 0, last = 0;  // instructions
};

// Time in which no kernel runs.
struct Wait {
  double begin = 0, end = 0;
  std::string group = "";  // whose communication goes on; empty: nothing does, the rank is idle
};

// What one class of ranks does. Kernels, exposed communication and idle time add up to the
// makespan.
struct RankActivity {
  std::vector<Segment> segments;
  std::vector<Wait> waits;
  double compute_s = 0;
  double recompute_s = 0;                         // of which: computed again for the backward
  double update_s = 0;                            // of which: once per step
  std::map<std::string, double> exposed_s;        // by group: communication that kernels wait for
  std::map<std::string, double> communication_s;  // by group: all of it
  double idle_s = 0;
};

std::vector<RankActivity> activity_of(const StepTimeline& timeline);  // by class

// The segments without the waits inside them: time in which kernels run, in order.
std::vector<Segment> busy_pieces(const RankActivity& activity);

// Classes that differ by less than anyone can see (one has a kernel of a microsecond more), as one.
struct ShownRow {
  size_t of_class = 0;     // whose activity is shown
  std::vector<int> ranks;  // of all that look like it, ascending
};
std::vector<ShownRow> rows_to_show(const StepTimeline& timeline,
                                   const std::vector<RankActivity>& activities);

// "pp" for messages between stages, else the axes: "tp", "dp+fsdp".
std::string axis_of(const Instruction& instruction);

}  // namespace tessera
