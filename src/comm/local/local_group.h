// What the ranks of one group share: where each rank says what it is calling, the count of arrivals
// that all wait on, and the traffic seen so far. Ranks are numbered within the group; messages name
// world ranks.
//
// A collective is enter(), the data movement, leave(); a barrier is enter() alone. Between the two
// every rank may use the buffers of every call_of(). Once all ranks are in, none can fail any more,
// so no rank returns while a peer still touches its buffers; an abort is seen in the next call.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/local/arrivals.h"
#include "tensor/wait.h"

namespace tessera {

// The first failure in a world. Thread-safe.
class WorldFailure {
 public:
  void raise(const std::string& reason);  // the first reason stays
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] const AbortFlag& flag() const { return flag_; }

 private:
  mutable std::mutex mutex_;
  std::string reason_;
  AbortFlag flag_;
};

// What must agree on all ranks.
struct Fingerprint {
  CollectiveOp op = CollectiveOp::kBarrier;
  DType dtype = DType::kF32;
  int root = 0;
  uint32_t tag = 0;
  int64_t count = 0;
  uint64_t sequence = 0;  // the group's first call is 1; set by enter()
  bool operator==(const Fingerprint&) const = default;
};

// "all_reduce(f32, 4096, tag 7) #17".
std::string describe(const Fingerprint& call);

struct Call {
  Fingerprint fingerprint;
  const void* in = nullptr;
  void* out = nullptr;
};

class LocalGroup {
 public:
  // `failure` must outlive the group.
  LocalGroup(std::string name, std::vector<int> members, std::chrono::milliseconds timeout,
             WorldFailure& failure);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int size() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] int world_rank(int rank) const { return members_[static_cast<size_t>(rank)]; }

  [[nodiscard]] std::span<const int> members() const { return members_; }
  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }

  void join(int rank);  // throws Error the second time

  // Publishes the call, waits for all ranks, checks that they agree. Throws CommError when they do
  // not, when one does not come in time, or when the world was aborted; the world is aborted then.
  void enter(int rank, const Call& call);
  // What `peer` published in the call that `rank` is in.
  [[nodiscard]] const Call& call_of(int rank, int peer) const;
  // Counts the call and waits until every rank is done with every buffer.
  void leave(int rank);
  // Counts a call that has no data to protect.
  void count_call(int rank);

  void count_read(int rank, int from, int64_t size_bytes);
  void count_stored(int rank, int64_t size_bytes);
  [[nodiscard]] TrafficCounters counters(int rank) const;

  // Aborts the world and throws. `text` follows "group NAME: ".
  [[noreturn]] void fail(const std::string& text);

 private:
  static constexpr size_t kOps = kNumCollectiveOps;

  struct alignas(64) Slot {
    Call call;
  };
  // Written by its rank alone. A rank may be one call ahead of a peer that still compares
  // fingerprints, never two: hence two slots.
  struct alignas(64) Member {
    std::array<Slot, 2> slots;
    std::atomic<uint64_t> num_calls{0};  // that have arrived; peers read it for error texts
    std::atomic<bool> joined{false};
    uint32_t arrivals_awaited = 0;
    std::array<int64_t, kOps> calls{};
    std::array<int64_t, kOps> stored_bytes{};           // into peers' buffers
    std::vector<std::array<int64_t, kOps>> read_bytes;  // by peer
  };

  Member& member(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  [[nodiscard]] const Member& member(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  [[nodiscard]] CollectiveOp current_op(int rank) const;
  void arrive(Member& self);
  void wait_for_arrivals(int rank, const Fingerprint& call);
  void check_agreement(int rank);
  [[nodiscard]] std::string absent_ranks(uint64_t sequence) const;

  std::string name_;
  std::vector<int> members_;
  std::chrono::milliseconds timeout_;
  WorldFailure& failure_;
  std::vector<Member> ranks_;
  Arrivals arrivals_;  // a phase is an enter or a leave
};

}  // namespace tessera
