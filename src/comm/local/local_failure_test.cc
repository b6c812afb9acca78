// Disagreement, absence and abort: every rank learns the reason, and nobody hangs.
#include <atomic>
#include <chrono>
#include <memory>
#include <random>

#include "comm/testing/local_ranks.h"

namespace tessera {
namespace {

using namespace tessera::testing;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int64_t kCount = 8192;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Any collective, on buffers of its own that it frees on the way out. Nobody touches them once it
// has failed.
void call(Communicator& comm, CollectiveOp op, DType dtype = DType::kF32, int64_t count = kCount,
          uint32_t tag = 7, int root = 0) {
  const auto bytes = static_cast<size_t>(kCount * 8);
  const std::vector<char> initial(bytes * 8, 42);
  std::vector<char> full = initial;
  std::vector<char> shard(initial.begin(), initial.begin() + static_cast<int64_t>(bytes));
  try {
    switch (op) {
      case CollectiveOp::kAllReduce:
        return comm.all_reduce(full.data(), count, dtype, tag);
      case CollectiveOp::kAllGather:
        return comm.all_gather(shard.data(), full.data(), count, dtype, tag);
      case CollectiveOp::kReduceScatter:
        return comm.reduce_scatter(full.data(), shard.data(), count, dtype, tag);
      case CollectiveOp::kBroadcast:
        return comm.broadcast(full.data(), count, dtype, root, tag);
      case CollectiveOp::kBarrier:
        return comm.barrier(tag);
      default:
        FAIL();
    }
  } catch (const CommError&) {
    const std::vector<char> left = full;
    std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(full, left) << "data was touched after the failure";
    throw;
  }
}

class EveryOpTest : public ::testing::TestWithParam<CollectiveOp> {};

TEST_P(EveryOpTest, TimeoutNamesTheAbsent) {
  LocalWorld world({.size = 5, .timeout = milliseconds(60)});
  const std::vector<int> members = {0, 1, 3, 4};
  const auto errors = run_ranks(4, [&](int rank) {
    if (rank == 3) return;  // world rank 4 never joins
    const auto comm = world.join("dp", members, members[static_cast<size_t>(rank)]);
    if (rank != 1) call(*comm, GetParam());
  });
  EXPECT_TRUE(world.aborted());
  int timeouts = 0;
  for (const int rank : {0, 2}) {
    if (rank == 2 && GetParam() == CollectiveOp::kBroadcast) continue;  // the root is there
    const std::string& error = errors[static_cast<size_t>(rank)];
    EXPECT_TRUE(contains(error, "group dp")) << error;
    EXPECT_TRUE(contains(error, std::string(name_of(GetParam())))) << error;
    EXPECT_TRUE(contains(error, "rank 1 (made 0 calls), rank 4 (never joined)")) << error;
    EXPECT_TRUE(contains(error, "waited 0.060 s")) << error;
    timeouts += contains(error, "aborted") ? 0 : 1;
  }
  EXPECT_GE(timeouts, 1);
}

TEST_P(EveryOpTest, AbortWakesWaiters) {
  LocalWorld world({.size = 4, .timeout = milliseconds(20'000)});
  std::atomic<int> waiting{0};
  Clock::time_point aborted_at;
  const auto errors = run_ranks(4, [&](int rank) {
    const auto comm = world.join("world", iota_ranks(4), rank);
    comm->barrier(0);
    if (rank == 3) {
      while (waiting < 3) std::this_thread::yield();
      std::this_thread::sleep_for(milliseconds(20));
      aborted_at = Clock::now();
      world.abort("loss is NaN on rank 3");
      world.abort("a later reason");
    } else {
      ++waiting;
      call(*comm, GetParam());
    }
  });
  EXPECT_LT(Clock::now() - aborted_at, milliseconds(3000));  // far below the timeout
  const int waiting_ranks = GetParam() == CollectiveOp::kBroadcast ? 1 : 3;  // the root alone
  for (int rank = 0; rank < waiting_ranks; ++rank) {
    EXPECT_TRUE(contains(errors[static_cast<size_t>(rank)], "loss is NaN on rank 3"));
  }
  EXPECT_EQ(world.abort_reason(), "loss is NaN on rank 3");
}

// A rank may give up while the last one arrives.
TEST_P(EveryOpTest, GivingUpAtTheLastMoment) {
  constexpr int kRanks = 3;
  std::mt19937 random(7);
  std::uniform_int_distribution<int> delay_us(900, 1300);
  for (int round = 0; round < 40; ++round) {
    LocalWorld world({.size = kRanks, .timeout = milliseconds(1)});
    const int delays[kRanks] = {0, delay_us(random), delay_us(random)};
    std::atomic<int> done{0};
    run_ranks(kRanks, [&](int rank) {
      const auto comm = world.join("world", iota_ranks(kRanks), rank);
      std::this_thread::sleep_for(std::chrono::microseconds(delays[rank]));
      call(*comm, GetParam());
      ++done;
    });
    EXPECT_EQ(world.aborted(), done < kRanks);
  }
}

TEST_P(EveryOpTest, DeadAfterAbort) {
  LocalWorld world({.size = 1});
  const auto comm = world.join("world", iota_ranks(1), 0);
  call(*comm, GetParam());
  world.abort("stop");
  EXPECT_THROW(call(*comm, GetParam()), CommError);
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOpTest,
                         ::testing::Values(CollectiveOp::kAllReduce, CollectiveOp::kAllGather,
                                           CollectiveOp::kReduceScatter, CollectiveOp::kBroadcast,
                                           CollectiveOp::kBarrier),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(LocalFailureTest, WorldChecksOptions) {
  EXPECT_THROW(LocalWorld({.size = 0}), Error);
  EXPECT_THROW(LocalWorld({.size = 1, .timeout = milliseconds(0)}), Error);
}

}  // namespace
}  // namespace tessera
