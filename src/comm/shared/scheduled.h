// Calls that ask for ring, tree and the like: their schedules (collective/schedule.h), executed
// with messages between the ranks of the group. For learning and for comparing; what the
// communicator chooses by itself moves straight between buffers. One such call of a group runs at a
// time. Allocates.
#pragma once

#include <chrono>
#include <optional>

#include "collective/schedule.h"
#include "comm/shared/on_device.h"
#include "comm/shared/point_to_point.h"
#include "comm/shared/way.h"
#include "tensor/arena.h"

namespace tessera::shared {

class Scheduled final : public Way {
 public:
  Scheduled(const GroupSite& site, const OnDevice& on_device);

  bool move(const PendingCall& pending, Blocker* blocker) override;
  // After an abort, as PointToPoint.
  void take_back(std::chrono::milliseconds patience) { messages_.take_back(patience); }

 private:
  void begin(const PendingCall& pending);
  void begin_round(const PendingCall& pending);
  void run_step(const PendingCall& pending, const CollectiveStep& step);
  void copy_in_step(const PendingCall& pending, const CollectiveStep& step);
  void reduce_in_step(const PendingCall& pending, const CollectiveStep& step);
  [[nodiscard]] std::byte* address(const PendingCall& pending, const StepPlace& place) const;

  const GroupSite& site_;
  const OnDevice& on_device_;
  PointToPoint messages_;
  CollectiveSchedule schedule_;      // of the call at hand
  std::optional<size_t> next_step_;  // none before it has begun
  HostArena scratch_;
  HostArena device_scratch_;  // the same, for calls on the device
};

}  // namespace tessera::shared
