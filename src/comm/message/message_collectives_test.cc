// What the suite of all backends does not ask of messages: the order of sums with every algorithm
// that promises one, counters against schedules, and the user's selection.
#include <gtest/gtest.h>

#include <atomic>

#include "collective/schedule.h"
#include "comm/testing/message_world.h"

namespace tessera {
namespace {

using namespace tessera::testing;

TEST(MessageBarrierTest, HoldsUntilTheLastHasCome) {
  constexpr int kRanks = 5;
  QueueNetwork network(
      {.ranks = kRanks, .rendezvous = true, .longest = std::chrono::microseconds(50)});
  std::atomic<int> arrived{0};
  expect_no_errors(run_message_ranks(network, kRanks, patient(), [&](CommWorld& world) {
    const auto comm = world.join_all("world");
    int round = 0;
    for (const Algorithm algorithm : supported_algorithms(CollectiveOp::kBarrier)) {
      for (int repeat = 0; repeat < 5; ++repeat) {
        ++arrived;
        comm->run({.op = CollectiveOp::kBarrier, .algorithm = algorithm});
        EXPECT_GE(arrived.load(), ++round * world.size());
      }
    }
  }));
}

// In order of rank, whatever the algorithm (of those that promise it) and the timing.
TEST(MessageOrderTest, SumsHaveTheBitsOfTheSumInOrderOfRank) {
  constexpr int kRanks = 5;
  constexpr int64_t kCount = 3001;
  std::vector<std::vector<BFloat16>> inputs;
  for (int rank = 0; rank < kRanks; ++rank) inputs.push_back(test_values<BFloat16>(rank, kCount));
  const std::vector<BFloat16> sums = reference_sum(inputs);
  QueueNetwork network({.ranks = kRanks, .longest = std::chrono::microseconds(100)});
  expect_no_errors(run_message_ranks(network, kRanks, patient(), [&](CommWorld& world) {
    const auto comm = world.join_all("world");
    for (const Algorithm algorithm : supported_algorithms(CollectiveOp::kAllReduce)) {
      if (!promises_rank_order(algorithm)) continue;
      std::vector<BFloat16> data = inputs[static_cast<size_t>(world.rank())];
      comm->run({.op = CollectiveOp::kAllReduce,
                 .dtype = DType::kBF16,
                 .count = kCount,
                 .in = data.data(),
                 .out = data.data(),
                 .algorithm = algorithm});
      EXPECT_TRUE(same_bits(data.data(), sums.data(), kCount)) << name_of(algorithm);
    }
  }));
}

// The counters count what is sent, which is what the schedule says.
TEST(MessageCountersTest, CountWhatTheScheduleSends) {
  constexpr int kRanks = 5;
  constexpr int64_t kCount = 1001;
  QueueNetwork network({.ranks = kRanks});
  expect_no_errors(run_message_ranks(network, kRanks, patient(), [&](CommWorld& world) {
    const auto comm = world.join_all("world");
    std::vector<float> in(kCount * kRanks, 1.0F);
    std::vector<float> out(kCount * kRanks);
    for (int i = 0; i < kNumCollectiveOps; ++i) {
      const auto op = static_cast<CollectiveOp>(i);
      if (is_point_to_point(op) || op == CollectiveOp::kAllToAllV) continue;
      int64_t calls = 0;
      int64_t bytes = 0;
      for (const Algorithm algorithm : supported_algorithms(op)) {
        const int64_t count = op == CollectiveOp::kBarrier ? 0 : kCount;
        comm->run(
            {.op = op, .count = count, .in = in.data(), .out = out.data(), .algorithm = algorithm});
        std::vector<int> nodes(kRanks);
        std::iota(nodes.begin(), nodes.end(), 0);
        bytes += bytes_sent(make_schedule({.op = op,
                                           .algorithm = algorithm,
                                           .ranks = kRanks,
                                           .rank = world.rank(),
                                           .count = count,
                                           .nodes = nodes}));
        ++calls;
      }
      const TrafficCounter seen = comm->counters()[static_cast<size_t>(i)];
      EXPECT_EQ(seen.calls, calls) << name_of(op);
      EXPECT_EQ(seen.bytes_sent, bytes) << name_of(op);
    }
  }));
}

TEST(MessageSelectionTest, AutoRunsWhatIsSelected) {
  constexpr int kRanks = 4;
  QueueNetwork network({.ranks = kRanks});
  MessageWorldOptions options = patient();
  options.selection.rules = {
      {.op = CollectiveOp::kBroadcast, .end_bytes = 1024, .algorithm = Algorithm::kTree},
      {.op = CollectiveOp::kBroadcast, .algorithm = Algorithm::kRing}};
  expect_no_errors(run_message_ranks(network, kRanks, options, [&](CommWorld& world) {
    const auto comm = world.join_all("world");
    std::vector<float> data(1000, 1.0F);
    const auto sent = [&] {
      return comm->counters()[static_cast<size_t>(CollectiveOp::kBroadcast)].bytes_sent;
    };
    comm->broadcast(data.data(), 10, DType::kF32, 0);  // the root of the tree has two children
    EXPECT_EQ(sent(), std::vector<int64_t>({80, 0, 40, 0})[static_cast<size_t>(world.rank())]);
    const int64_t before = sent();
    comm->broadcast(data.data(), 1000, DType::kF32, 0);  // the chain ends with rank 3
    EXPECT_EQ(sent() - before, world.rank() == 3 ? 0 : 4000);
  }));
}

}  // namespace
}  // namespace tessera
