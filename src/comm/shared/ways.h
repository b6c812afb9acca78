// The ways in which a group moves data, and which of them a call takes.
#pragma once

#include <chrono>

#include "comm/shared/assembly.h"
#include "comm/shared/helping.h"
#include "comm/shared/on_device.h"
#include "comm/shared/scheduled.h"
#include "comm/shared/staging.h"
#include "comm/shared/way.h"

namespace tessera::shared {

// Every rank moves its part straight between the buffers, or from mailboxes (movement.h).
class Direct final : public Way {
 public:
  Direct(const GroupSite& site, Assembly& assembly) : site_(site), assembly_(assembly) {}
  bool move(const PendingCall& pending, Blocker* blocker) override;

 private:
  const GroupSite& site_;
  Assembly& assembly_;
};

class Ways {
 public:
  explicit Ways(const GroupSite& site);
  Ways(const Ways&) = delete;
  Ways& operator=(const Ways&) = delete;

  // What peers have to know of the buffers of a call that is not mailed; before it is published.
  [[nodiscard]] uint8_t buffer_flags(const PendingCall& pending);
  // Once all have arrived: which way it takes, from the flags of all members.
  void choose(PendingCall& pending) const;
  [[nodiscard]] Way& of(const PendingCall& pending);

  // After this rank has moved: whether a peer that has not may still touch its buffers.
  [[nodiscard]] bool may_touch(const PendingCall& pending, int peer) const {
    return !pending.helped || helping_.holds_parts(pending, peer);
  }
  [[nodiscard]] const OnDevice& on_device() const { return on_device_; }
  // After an abort: waits for those that read messages of this rank.
  void take_back(std::chrono::milliseconds patience) { scheduled_.take_back(patience); }

 private:
  const GroupSite& site_;
  Assembly assembly_;
  Direct direct_;
  Helping helping_;
  OnDevice on_device_;
  Staging staging_;
  Scheduled scheduled_;
};

}  // namespace tessera::shared
