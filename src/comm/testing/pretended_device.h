// A device in host memory, for machines without a GPU. Its addresses cannot be touched by the host,
// as those of a real one: whoever tries is killed. What is in line runs in finish(), so that a
// missing one shows.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/device.h"

namespace tessera::testing {

class PretendedDevice final : public Device {
 public:
  [[nodiscard]] std::string name() const override { return "the pretended GPU"; }
  [[nodiscard]] bool reaches(const void* data) override { return find(data) != nullptr; }
  HostArena allocate(const std::string& name, int64_t size_bytes) override;
  std::unique_ptr<DeviceMover> make_mover() override;

  // Where its memory can be touched.
  std::byte* open(const void* data);
  void upload(void* to, const void* from, int64_t size_bytes);
  void download(void* to, const void* from, int64_t size_bytes);

  std::atomic<bool> hangs = false;   // nothing finishes
  std::atomic<bool> breaks = false;  // finish() throws

 private:
  struct Block {
    std::byte* closed;  // what calls are given
    std::byte* opened;
    size_t size_bytes;
  };
  const Block* find(const void* data);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> blocks_;  // guarded by mutex_
};

}  // namespace tessera::testing
