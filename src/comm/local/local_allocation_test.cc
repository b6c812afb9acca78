// A collective allocates nothing: scratch that is mapped and touched per call would dominate it.
#include "comm/testing/count_allocations.h"
#include "comm/testing/local_ranks.h"

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
  }));
}

}  // namespace
}  // namespace tessera
