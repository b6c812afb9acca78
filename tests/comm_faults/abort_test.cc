// An abort at any moment ends every wait, with its reason, and frees no buffer too early.
#include <random>
#include <thread>

#include "comm_faults/fault_world.h"

namespace tessera {
namespace {

using namespace tessera::testing;

constexpr int kRanks = 3;

// Collectives of many kinds and sizes, some in flight, until the world ends.
void call_many_kinds(CommWorld& world) {
  constexpr int64_t kMost = 300'000;
  const auto group = world.join_all("dp");
  const auto again = world.join_all("tp");
  HostArena heap = world.allocate("data", kMost * 4 * (kRanks + 1));
  std::byte* const full = heap.data();
  std::byte* const shard = full + kMost * 4 * kRanks;
  const auto deadline = TestClock::now() + std::chrono::seconds(30);
  std::mt19937 random(1);  // the same on every rank
  while (TestClock::now() < deadline) {
    const int64_t count = random() % 2 == 0 ? 100 : kMost;
    switch (random() % 6) {
      case 0:
        group->all_reduce(full, count, DType::kF32);
        break;
      case 1:
        group->reduce_scatter(full, shard, count, DType::kF32);
        break;
      case 2:
        group->all_gather(shard, full, count, DType::kF32);
        break;
      case 3:
        group->broadcast(full, count, DType::kF32, static_cast<int>(random() % kRanks));
        break;
      case 4: {
        std::vector<float> foreign(static_cast<size_t>(count));
        group->all_reduce(foreign.data(), count, DType::kF32);
        break;
      }
      case 5: {
        Work first =
            group->start({.op = CollectiveOp::kAllReduce, .count = count, .in = full, .out = full});
        Work second = again->start(
            {.op = CollectiveOp::kAllGather, .count = 50, .in = shard, .out = full + count * 4});
        second.wait();
        first.wait();
        break;
      }
    }
  }
  throw Error("the world did not end");
}

class AbortTest : public FaultTest, public ::testing::WithParamInterface<int> {};

TEST_P(AbortTest, EndsEveryRankWithItsReason) {
  std::mt19937 random(static_cast<uint32_t>(GetParam()));
  const auto delay = std::chrono::microseconds(random() % 30'000);
  const bool by_parent = GetParam() % 4 == 3;
  const int aborting = GetParam() % 4;
  FaultWorld world({.ranks = kRanks}, [&](CommWorld& rank, const RankVoice& voice) {
    // Any thread may abort.
    std::thread aborter([&] {
      if (rank.rank() != aborting) return;
      std::this_thread::sleep_for(delay);
      voice.say("aborting");
      rank.abort("the loss is NaN");
    });
    try {
      call_many_kinds(rank);
    } catch (...) {
      aborter.join();
      throw;
    }
  });
  auto since = TestClock::now();
  if (by_parent) {
    std::this_thread::sleep_for(delay);
    since = TestClock::now();
    world.memory().abort("the loss is NaN");
    EXPECT_TRUE(world.memory().aborted());
  }
  const std::vector<RankEnd> ends = world.ranks().finish();
  if (!by_parent) since = ends[static_cast<size_t>(aborting)].time_of("aborting");
  const auto took = expect_survivors_leave(ends, -1, since, {"the loss is NaN"});
  EXPECT_EQ(world.memory().abort_reason(), "the loss is NaN");
  RecordProperty("longest_us", static_cast<int>(took.count()));
}

INSTANTIATE_TEST_SUITE_P(Moments, AbortTest, ::testing::Range(0, 16));

}  // namespace
}  // namespace tessera
