#include "comm/testing/mismatches.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/error.h"

namespace tessera::testing {
namespace {

constexpr int64_t kCount = 4096;
constexpr std::byte kUntouched{42};

const Mismatch kMismatches[] = {
    {"op",
     {.op = CollectiveOp::kAllReduce, .count = kCount},
     {.op = CollectiveOp::kAllGather, .count = kCount}},
    {"op_of_the_same_shape",
     {.op = CollectiveOp::kReduceScatter, .count = 5},
     {.op = CollectiveOp::kAllToAll, .count = 5}},
    {"barrier",
     {.op = CollectiveOp::kReduceScatter, .count = kCount},
     {.op = CollectiveOp::kBarrier}},
    {"count",
     {.op = CollectiveOp::kAllGather, .count = kCount},
     {.op = CollectiveOp::kAllGather, .count = kCount - 1}},
    {"count_of_small_ones",
     {.op = CollectiveOp::kAllReduce, .count = 8},
     {.op = CollectiveOp::kAllReduce, .count = 9}},
    // One side is small enough for a mailbox, the other is not.
    {"small_against_large",
     {.op = CollectiveOp::kAllReduce, .count = 8},
     {.op = CollectiveOp::kAllReduce, .count = 40 * kCount}},
    {"dtype",
     {.op = CollectiveOp::kAllReduce, .dtype = DType::kF32, .count = kCount},
     {.op = CollectiveOp::kAllReduce, .dtype = DType::kI32, .count = kCount}},
    {"reduction",
     {.op = CollectiveOp::kAllReduce, .reduce = ReduceOp::kSum, .count = kCount},
     {.op = CollectiveOp::kAllReduce, .reduce = ReduceOp::kMax, .count = kCount}},
    {"root",
     {.op = CollectiveOp::kBroadcast, .root = 0, .count = kCount},
     {.op = CollectiveOp::kBroadcast, .root = 1, .count = kCount}},
    {"root_of_a_gather",
     {.op = CollectiveOp::kGather, .root = 1, .count = 3},
     {.op = CollectiveOp::kGather, .root = 2, .count = 3}},
    // Two buckets of the same size in another order.
    {"tag",
     {.op = CollectiveOp::kAllReduce, .tag = 1, .count = kCount},
     {.op = CollectiveOp::kAllReduce, .tag = 2, .count = kCount}},
    {"tag_of_barriers",
     {.op = CollectiveOp::kBarrier, .tag = 1},
     {.op = CollectiveOp::kBarrier, .tag = 2}},
};

int64_t buffer_bytes(const CollectiveCall& call, int size) {
  return size * call.count * size_bytes(call.dtype);
}

}  // namespace

std::span<const Mismatch> all_mismatches() { return kMismatches; }

void run_mismatch(CommWorld& world, const Mismatch& mismatch, const MismatchRun& run) {
  const std::unique_ptr<Communicator> group = world.join_all("tp");
  CollectiveCall call = world.rank() == run.odd_rank ? mismatch.odd : mismatch.usual;
  const auto bytes = static_cast<size_t>(buffer_bytes(call, group->size()));
  HostArena heap = world.allocate("buffers", static_cast<int64_t>(2 * bytes + 64));
  std::vector<std::byte> foreign(2 * bytes + 64);
  const std::span<std::byte> buffers(run.heap_buffers ? heap.data() : foreign.data(), 2 * bytes);
  std::fill(buffers.begin(), buffers.end(), kUntouched);
  call.in = buffers.data();
  call.out = buffers.data() + bytes;
  for (int i = 0; i < run.calls_before; ++i) group->barrier();
  try {
    group->run(call);
    // A root that does not wait for its readers hears of it in its next call.
    group->barrier();
  } catch (const CommError&) {
    const bool untouched =
        std::all_of(buffers.begin(), buffers.end(), [](std::byte b) { return b == kUntouched; });
    require(untouched, "data was touched before the mismatch was noticed");
    throw;
  }
  throw Error("the mismatch was not noticed");
}

std::vector<std::string> mismatch_texts(const Mismatch& mismatch, const MismatchRun& run) {
  const auto sequence = static_cast<uint64_t>(run.calls_before + 1);
  return {fmt::format("rank {} called {}", run.odd_rank, describe(mismatch.odd, sequence)),
          " while rank ", fmt::format(" called {}", describe(mismatch.usual, sequence))};
}

}  // namespace tessera::testing
