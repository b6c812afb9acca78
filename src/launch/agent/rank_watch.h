// Which ranks do not go on although their processes are there. Pure: the time and what is seen of
// the ranks are arguments.
//
//   stopped  the system does not let it run (SIGSTOP), for `stopped_after`; after `stopped_grace`
//            more it is to be killed. Where all ranks are stopped somebody has paused the job.
//   hung     no rank has come further for `hung_after`, or four times as long as nearly all (99 %)
//            visits to this section took, where that is more. Named is the rank that waits for
//            nobody: the others are its victims. A section that no rank has left before gets
//            kFirstVisit times `hung_after`: nothing is known of it.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "comm/shm/shm_world.h"

namespace tessera {

inline constexpr int kFirstVisit = 20;

struct WatchBounds {
  std::chrono::milliseconds stopped_after{5'000};
  std::chrono::milliseconds stopped_grace{10'000};
  std::chrono::milliseconds hung_after{30'000};

  // How often to look, so that a bound is met closely.
  [[nodiscard]] std::chrono::milliseconds tick() const;
};

struct RankSight {
  bool running = true;  // its process is there
  bool stopped = false;
  RankProgress progress;
};

struct WatchFinding {
  enum class Kind : uint8_t { kStopped, kGoesOn, kStoppedTooLong, kHung };
  Kind kind = Kind::kStopped;
  int rank = 0;
  std::chrono::milliseconds time{0};  // for which it has been so
};

class RankWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  RankWatch(int ranks, const WatchBounds& bounds);
  // What is new since the last look. After kStoppedTooLong and kHung nothing more comes.
  std::vector<WatchFinding> look(Time now, std::span<const RankSight> ranks);

 private:
  struct Seen {
    std::optional<Time> stopped_since;
    bool said = false;  // that it is stopped
    RankProgress progress;
    Time came_further;    // when it did last
    Time entered;         // its section
    Time waited_last;     // when it was last seen to wait for a rank
    int waited_for = -1;  // which
  };
  void note_progress(Time now, std::span<const RankSight> ranks);
  void look_for_stopped(Time now, std::span<const RankSight> ranks,
                        std::vector<WatchFinding>& found);
  void look_for_hung(Time now, std::span<const RankSight> ranks, std::vector<WatchFinding>& found);
  [[nodiscard]] std::chrono::milliseconds bound_of(const RankProgress& progress) const;
  [[nodiscard]] int culprit(std::span<const RankSight> ranks) const;
  void forget(Time now);

  WatchBounds bounds_;
  std::vector<Seen> seen_;
  std::array<std::vector<std::chrono::milliseconds>, 5> visits_;  // how long, by section
  std::optional<Time> looked_;
  bool done_ = false;
};

}  // namespace tessera
