// One measured collective: the call that each rank makes, the size that it is quoted with, and the
// memory it cannot avoid to touch. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/communicator.h"

namespace tessera {

struct BenchCase {
  CollectiveOp op = CollectiveOp::kAllReduce;
  ReduceOp reduce = ReduceOp::kSum;
  DType dtype = DType::kF32;
  Algorithm algorithm = Algorithm::kAuto;
  bool in_place = false;
  int ranks = 1;
  int64_t count = 0;  // as in CollectiveCall

  // The full array, as nccl-tests counts it: what the op splits or joins is n times its count.
  [[nodiscard]] int64_t array_bytes() const;
};

// Every rank has two arrays of array_bytes() each. Ops with one buffer use `in`.
struct BenchArrays {
  std::byte* in = nullptr;
  std::byte* out = nullptr;
};

constexpr int kBenchRoot = 0;

// An array that each rank has a part of: count is per rank.
bool is_split(CollectiveOp op);
// Broadcast has one buffer, so it is always in place.
bool has_in_place_choice(CollectiveOp op);

// The largest case of at most `array_bytes`, but of at least one element per rank.
BenchCase case_of_size(BenchCase shape, int64_t array_bytes);

CollectiveCall call_of(const BenchCase& bench, int rank, const BenchArrays& arrays);

// Bus bandwidth is this times array_bytes / time: the share of the array that every rank has to
// send or receive, so that it compares with the speed of a link.
double bus_factor(CollectiveOp op, int ranks);

// What the op does to memory at least, over all ranks: adds `sources` streams of `stream_bytes`
// into `targets` streams. In place, the targets are the sources.
struct MemoryWork {
  int sources = 1;
  int targets = 1;
  bool in_place = false;
  int64_t stream_bytes = 0;

  [[nodiscard]] int64_t moved_bytes() const { return (sources + targets) * stream_bytes; }
  // Distinct memory: what must not fit in a cache for the memory to be the limit.
  [[nodiscard]] int64_t touched_bytes() const {
    return (in_place ? sources : sources + targets) * stream_bytes;
  }
};
MemoryWork memory_work(const BenchCase& bench);

}  // namespace tessera
