#include "comm/testing/pretended_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <thread>

#include "base/error.h"
#include "comm/reduce.h"

namespace tessera::testing {
namespace {

constexpr std::chrono::milliseconds kMomentAfterAbort{100};

class PretendedMover final : public DeviceMover {
 public:
  explicit PretendedMover(PretendedDevice& device) : device_(device) {}

  void copy(void* to, const void* from, int64_t size_bytes) override {
    line_.push_back([=, to = device_.open(to), from = device_.open(from)] {
      std::memcpy(to, from, static_cast<size_t>(size_bytes));
    });
  }

  void exchange(const void* mine, void* to_them, const void* theirs, void* to_me,
                int64_t size_bytes) override {
    const auto bytes = static_cast<size_t>(size_bytes);
    line_.push_back([bytes, mine = device_.open(mine), to_them = device_.open(to_them),
                     theirs = device_.open(theirs), to_me = device_.open(to_me)] {
      const std::vector<std::byte> kept(mine, mine + bytes);
      std::memmove(to_me, theirs, bytes);
      std::memcpy(to_them, kept.data(), bytes);
    });
  }

  void reduce(ReduceOp op, DType dtype, std::span<const void* const> sources,
              std::span<void* const> targets, int64_t count, int mean_over) override {
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const void* source : sources) from.push_back(device_.open(source));
    for (void* target : targets) to.push_back(device_.open(target));
    line_.push_back([=, from = std::move(from), to = std::move(to)] {
      reduce_in_order(op, dtype, from, to, count, mean_over);
    });
  }

  void finish(const AbortFlag& abort, std::chrono::milliseconds timeout) override {
    if (line_.empty()) return;
    if (device_.breaks) throw Error("the device is broken");
    auto deadline = std::chrono::steady_clock::now() + timeout;
    bool aborted = false;
    while (device_.hangs) {
      const auto now = std::chrono::steady_clock::now();
      if (abort.raised() && !aborted) deadline = std::min(deadline, now + kMomentAfterAbort);
      aborted = abort.raised();
      if (now > deadline) throw Error("the device has not finished");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (const std::function<void()>& step : line_) step();
    line_.clear();
  }

 private:
  PretendedDevice& device_;
  std::deque<std::function<void()>> line_;
};

}  // namespace

HostArena PretendedDevice::allocate(const std::string& name, int64_t size_bytes) {
  const auto bytes = static_cast<size_t>(std::max<int64_t>(size_bytes, 1));
  const int file = memfd_create("pretended device", MFD_CLOEXEC);
  require(file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0, "no memory file for {}",
          name);
  const std::scoped_lock lock(mutex_);  // or a block that is going might have the same addresses
  void* closed = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
  void* opened = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  require(closed != MAP_FAILED && opened != MAP_FAILED, "no address space for {}", name);
  blocks_.push_back(std::make_unique<Block>(
      Block{static_cast<std::byte*>(closed), static_cast<std::byte*>(opened), bytes}));
  return {name, static_cast<std::byte*>(closed), size_bytes, [this, block = blocks_.back().get()] {
            const std::scoped_lock release_lock(mutex_);
            munmap(block->closed, block->size_bytes);
            munmap(block->opened, block->size_bytes);
            std::erase_if(blocks_, [&](const auto& other) { return other.get() == block; });
          }};
}

std::unique_ptr<DeviceMover> PretendedDevice::make_mover() {
  return std::make_unique<PretendedMover>(*this);
}

const PretendedDevice::Block* PretendedDevice::find(const void* data) {
  const std::scoped_lock lock(mutex_);
  const auto* address = static_cast<const std::byte*>(data);
  for (const std::unique_ptr<Block>& block : blocks_) {
    if (address >= block->closed && address < block->closed + block->size_bytes) return block.get();
  }
  return nullptr;
}

std::byte* PretendedDevice::open(const void* data) {
  const Block* block = find(data);
  TESSERA_CHECK(block != nullptr, "this is no memory of the device");
  return block->opened + (static_cast<const std::byte*>(data) - block->closed);
}

void PretendedDevice::upload(void* to, const void* from, int64_t size_bytes) {
  std::memcpy(open(to), from, static_cast<size_t>(size_bytes));
}

void PretendedDevice::download(void* to, const void* from, int64_t size_bytes) {
  std::memcpy(to, open(from), static_cast<size_t>(size_bytes));
}

}  // namespace tessera::testing
