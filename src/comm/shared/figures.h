// What a communicator keeps of its calls: a record for whoever asks after a crash, who came late,
// and the bytes that moved.
#pragma once

#include <array>
#include <chrono>
#include <vector>

#include "comm/communicator.h"
#include "comm/shared/pending_call.h"
#include "comm/shared/way.h"

namespace tessera::shared {

class Figures {
 public:
  explicit Figures(const GroupSite& site);

  // A call or message was issued; `sequence` is its place among its kind.
  void record(const CollectiveCall& call, uint64_t sequence);
  // All that the call waits for have arrived.
  void note_lateness(const PendingCall& pending);

  [[nodiscard]] TrafficCounters counters() const;
  [[nodiscard]] std::vector<Arrival> arrivals() const;

 private:
  static constexpr size_t kLatenessBuckets = 64;

  const GroupSite& site_;
  std::array<int64_t, kNumCollectiveOps> calls_{};
  std::vector<std::array<int64_t, kLatenessBuckets>> lateness_;  // by log2 of ticks
  std::vector<int64_t> times_last_;
  uint64_t first_ticks_;
  std::chrono::steady_clock::time_point first_time_;
};

}  // namespace tessera::shared
