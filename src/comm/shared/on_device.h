// Calls whose buffers are memory of a device that all ranks share. They are told from calls on host
// memory by the addresses, so both may be mixed in a group; the ranks of one call must agree.
#pragma once

#include <memory>

#include "comm/device.h"
#include "comm/shared/assembly.h"
#include "comm/shared/way.h"

namespace tessera::shared {

class OnDevice final : public Way {
 public:
  // Where the world has no device, nothing lies on it.
  OnDevice(const GroupSite& site, Assembly& assembly);

  // Null: the world has no device.
  [[nodiscard]] DeviceMover* mover() const { return mover_.get(); }

  // `sequence` is the call's place, for messages. Fails where one buffer is there and one is not.
  [[nodiscard]] bool lies_there(const CollectiveCall& call, uint64_t sequence) const;
  // What peers are told: kOnDevice, kOnHost, or 0 where there is no data or no device.
  [[nodiscard]] uint8_t memory_flag(const PendingCall& pending) const;
  // Once all have arrived: fails unless all use the same memory.
  void check_same_memory(const PendingCall& pending) const;

  bool move(const PendingCall& pending, Blocker* blocker) override;
  // Waits for what is in line.
  void finish(const PendingCall& pending) const;

  // Whatever goes wrong on the device in `step` ends the world.
  template <typename Step>
  void guard(const CollectiveCall& call, uint64_t sequence, const Step& step) const {
    try {
      step();
    } catch (const Error& error) {
      fail(call, sequence, error);
    }
  }

 private:
  void fail(const CollectiveCall& call, uint64_t sequence, const Error& error) const;

  const GroupSite& site_;
  Assembly& assembly_;
  std::unique_ptr<DeviceMover> mover_;
};

}  // namespace tessera::shared
