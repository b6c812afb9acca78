// A fixed group of ranks that exchange tensors.
//
// Every rank of the group must issue the same collectives in the same order, from one thread at a
// time. Calls block until this rank may use its result and may reuse its input. Each call carries a
// fingerprint (op, dtype, count, tag, sequence number); ranks that disagree all throw CommError
// naming both sides before any data is touched. A peer that fails, or does not arrive within the
// timeout, makes every waiter throw CommError naming the rank that is missing; the group is dead
// from then on. Sums run in order of rank (bf16 accumulates in f32), so results repeat bit for bit.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"

namespace tessera {

enum class CollectiveOp : uint8_t { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kBarrier };
constexpr int kNumCollectiveOps = 5;

// "all_reduce", "all_gather", "reduce_scatter", "broadcast", "barrier".
std::string_view name_of(CollectiveOp op);

class CommError : public Error {
 public:
  explicit CommError(const std::string& message) : Error(message) {}
};

// What this rank has sent so far: counted where bytes move, not computed from a formula. A byte
// counts as sent by the rank whose buffer it was read from (or that stored it elsewhere).
struct TrafficCounter {
  int64_t calls = 0;
  int64_t bytes_sent = 0;
};
using TrafficCounters = std::array<TrafficCounter, kNumCollectiveOps>;

class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;  // within the group
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual const std::string& name() const = 0;  // "tp", "dp", "world", …

  // data[i] = sum over ranks of data[i], in place.
  virtual void all_reduce(void* data, int64_t count, DType dtype, uint32_t tag) = 0;
  // full[r * count .. ] = shard of rank r. `shard` may be this rank's place inside `full`.
  virtual void all_gather(const void* shard, void* full, int64_t count, DType dtype,
                          uint32_t tag) = 0;
  // shard = sum over ranks of full[rank() * count ..]. `shard` may be this rank's place in `full`.
  virtual void reduce_scatter(const void* full, void* shard, int64_t count, DType dtype,
                              uint32_t tag) = 0;
  virtual void broadcast(void* data, int64_t count, DType dtype, int root, uint32_t tag) = 0;
  virtual void barrier(uint32_t tag) = 0;

  // Must not be called while a collective is in flight on any rank of the group.
  [[nodiscard]] virtual TrafficCounters counters() const = 0;
};

}  // namespace tessera
