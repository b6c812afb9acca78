// When ranks compute frames: what a trace of them is drawn from (serve/ranks/frame_trace.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "serve/frame.h"

namespace tessera::serve {

// How long a rank stood still in a frame because of another stage of the pipeline.
struct StageWaits {
  std::chrono::nanoseconds input{0};   // before it computed: for what the stage before gives
  std::chrono::nanoseconds output{0};  // after: until the next stage takes what it gives
};

// When a rank had a frame, on the clock that all processes of a host share. It computed from
// `input_ns` to `output_ns`.
struct FrameTimes {
  uint64_t number = 0;
  int64_t begin_ns = 0;
  int64_t input_ns = 0;
  int64_t output_ns = 0;
  int64_t end_ns = 0;
};

inline int64_t frame_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The frame has ended just now.
inline FrameTimes frame_times(uint64_t number, int64_t begin_ns, const StageWaits& waits) {
  FrameTimes times{.number = number, .begin_ns = begin_ns, .end_ns = frame_clock_ns()};
  times.input_ns = begin_ns + waits.input.count();
  times.output_ns = times.end_ns - waits.output.count();
  return times;
}

struct RankFrameTimes {
  int rank = 0;
  FrameTimes times;
};

// A runner whose ranks tell their times, where they were asked to.
class TimedFrameRunner : public FrameRunner {
 public:
  // Those that came since the last call. A rank's may come with a later result than their own,
  // where it is not the one that samples.
  [[nodiscard]] virtual std::vector<RankFrameTimes> take_times() = 0;
};

}  // namespace tessera::serve
