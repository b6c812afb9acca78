// Which rank of a server does not go on although its process is there. Pure: the time and what is
// seen of the ranks are arguments.
//
//   stopped  the system does not let it run (SIGSTOP), for `stopped_after`
//   hung     frames are under way, and no rank has come further for `hung_after`, or four times as
//            long as the longest stillness that ended, where that is more; a frame may be still for
//            longer in the proportion of its tokens. Before a frame has been computed it is
//            kFirstVisit times as long: nothing is known. Named is a rank that waits for nobody and
//            has not done the oldest frame: the others are its victims.
// Training has its own watch (launch/agent/rank_watch.h): there a job may be paused as a whole, and
// steps are equal; here people wait for an answer, and a rank without a frame has nothing to do.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/agent/rank_loss.h"
#include "launch/agent/rank_watch.h"

namespace tessera::serve {

struct FrameWatchBounds {
  std::chrono::milliseconds stopped_after{1'000};
  std::chrono::milliseconds hung_after{3'500};

  // How often to look.
  [[nodiscard]] std::chrono::milliseconds tick() const;
};

// How a rank tells which frame it is at, as RunState::step: 0 before the first.
constexpr int64_t step_in_frame(uint64_t number) { return static_cast<int64_t>(2 * number + 1); }
constexpr int64_t step_after_frame(uint64_t number) { return static_cast<int64_t>(2 * number + 2); }
// "in frame 7", "after frame 6", "before its first frame"
std::string frame_text(int64_t step);

struct FramesUnderWay {
  uint64_t oldest = 0;
  int64_t tokens = 0;  // of the largest
};

class FrameWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit FrameWatch(const FrameWatchBounds& bounds) : bounds_(bounds) {}

  struct Finding {
    Verdict verdict = Verdict::kStopped;
    int rank = 0;
    std::chrono::milliseconds time{0};  // for which it has been so
  };
  // `frames`: nothing where none is under way. After a finding nothing more comes.
  std::optional<Finding> look(Time now, std::span<const RankSight> ranks,
                              const std::optional<FramesUnderWay>& frames);

 private:
  std::optional<Finding> look_for_stopped(Time now, std::span<const RankSight> ranks);
  std::optional<Finding> look_for_hung(Time now, std::span<const RankSight> ranks,
                                       const FramesUnderWay& frames) const;
  void note_progress(Time now, std::span<const RankSight> ranks);

  FrameWatchBounds bounds_;
  std::optional<Time> looked_;
  std::vector<std::optional<Time>> stopped_since_;
  uint64_t came_so_far_ = 0;  // all that all ranks have done, in their own counts
  bool computed_ = false;     // a frame, some time
  std::optional<Time> still_since_;
  int64_t still_tokens_ = 0;              // of the largest frame then
  std::chrono::milliseconds longest_{0};  // stillness, of a small frame
  bool done_ = false;
};

}  // namespace tessera::serve
