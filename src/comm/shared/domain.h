// The memory that the ranks of one world share, as one process sees it, and what all its groups
// need from it: failures, who is alive, how to wait, which buffers peers can reach.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "comm/device.h"
#include "comm/shared/layout.h"

namespace tessera::shared {

// What can be found out about ranks without their help.
class Liveness {
 public:
  virtual ~Liveness() = default;
  // Why nothing more will come from the rank ("was killed by SIGKILL"), or nothing.
  virtual std::optional<std::string> gone(int world_rank) = 0;
  // Why any rank of the world, waited for or not, has been lost; one that left is not lost.
  virtual std::optional<std::string> lost() = 0;
  // "rank 2 (pid 4711, stopped)".
  virtual std::string describe(int world_rank) = 0;
};

struct Patience {
  std::chrono::milliseconds timeout{60'000};    // for a peer that has not arrived
  std::chrono::milliseconds leaving{60'000};    // for a peer that has, and moves data
  std::chrono::milliseconds slow_after{5'000};  // until a warning
};

class Domain {
 public:
  // `block` begins the shared memory. `base` is what references count from (null: they are
  // addresses). A null `liveness` says that nobody can be lost.
  struct Options {
    WorldBlock* block = nullptr;
    std::byte* base = nullptr;
    std::span<std::byte> heap = {};  // empty: peers reach everything
    Liveness* liveness = nullptr;
    Device* device = nullptr;  // whose memory calls may use too; null: none
    Patience patience;
    bool crowded = false;  // more threads than cores: yield instead of spinning
    std::function<void(const std::string&)> on_warning;
  };
  explicit Domain(Options options) : options_(std::move(options)) {}

  [[nodiscard]] WorldBlock& block() const { return *options_.block; }
  [[nodiscard]] int ranks() const { return static_cast<int>(block().ranks); }
  [[nodiscard]] const Patience& patience() const { return options_.patience; }
  [[nodiscard]] bool crowded() const { return options_.crowded; }
  [[nodiscard]] Liveness* liveness() const { return options_.liveness; }
  [[nodiscard]] Device* device() const { return options_.device; }
  void warn(const std::string& text) const;

  [[nodiscard]] bool reachable(const void* data, int64_t size_bytes) const;
  [[nodiscard]] uint64_t reference(const void* data) const;
  [[nodiscard]] std::byte* address(uint64_t reference) const;

  [[nodiscard]] std::string describe(int world_rank) const;

  struct Group {
    int index = 0;
    GroupView view;
    int rank = 0;  // of the caller
    int world_rank = 0;
  };
  // The group of (key, members), made by whoever comes first; messages call it `name`.
  [[nodiscard]] Group enter_group(const std::string& name, const std::string& key,
                                  std::span<const int> members, int world_rank) const;
  // The last one to leave frees the place.
  void leave_group(const Group& group) const;

 private:
  Options options_;
};

// The first failure of the world stays.
void raise_abort(WorldBlock& world, const std::string& reason);
std::string abort_reason(const WorldBlock& world);

// A call of the rank begins, in the group with that number.
void note_call(RankBlock& rank, int group, const CollectiveCall& call, uint64_t sequence);
// "all_reduce(f32, 4096) #17 of group dp", or nothing before the first call.
std::string last_call(WorldBlock& world, int world_rank);

}  // namespace tessera::shared
