// A collective allocates nothing: scratch that is mapped and touched per call would dominate it.
#include <cstdlib>
#include <new>

#include "comm/local/test_ranks.h"

namespace {
thread_local int64_t num_allocations = 0;
}  // namespace

// Not inlined, or the compiler takes malloc and delete for a mismatched pair.
[[gnu::noinline]] void* operator new(size_t size) {
  ++num_allocations;
  if (void* block = std::malloc(size == 0 ? 1 : size)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }

namespace tessera {
namespace {

using namespace tessera::testing;

TEST(LocalAllocationTest, CollectivesDoNotAllocate) {
  constexpr int kRanks = 3;
  constexpr int64_t kCount = 5000;
  LocalWorld world({.size = kRanks, .timeout = std::chrono::seconds(20)});
  expect_no_errors(run_ranks(kRanks, [&](int rank) {
    const auto comm = world.join("world", iota_ranks(kRanks), rank);
    std::vector<float> full(kCount * kRanks);
    std::vector<float> shard(kCount);
    const int64_t before = num_allocations;
    for (int repeat = 0; repeat < 5; ++repeat) {
      comm->all_reduce(full.data(), kCount, DType::kF32, 0);
      comm->reduce_scatter(full.data(), shard.data(), kCount, DType::kF32, 0);
      comm->all_gather(shard.data(), full.data(), kCount, DType::kF32, 0);
      comm->broadcast(full.data(), kCount, DType::kF32, 0, 0);
      comm->barrier(0);
    }
    EXPECT_EQ(num_allocations, before);
    const std::vector<float> control(1);
    EXPECT_EQ(num_allocations, before + 1) << "the counter does not count";
  }));
}

}  // namespace
}  // namespace tessera
