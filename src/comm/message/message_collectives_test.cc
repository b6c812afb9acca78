// Every op, algorithm, element type and reduction over queues that deliver in a random order.
#include <gtest/gtest.h>

#include <cmath>

#include "collective/schedule.h"
#include "comm/message/test_world.h"
#include "tensor/element.h"

namespace tessera {
namespace {

using namespace tessera::testing;

constexpr DType kDTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                             DType::kI32, DType::kI64, DType::kU8};

// Whole numbers below 8: every type holds their sum over 9 ranks exactly, in any order.
double value_of(int rank, int64_t i) {
  const auto h = static_cast<uint64_t>(i * 131 + rank + 1) * 0x9E3779B97F4A7C15U;
  return static_cast<double>(h >> 61);
}

struct Buffer {
  Buffer(DType type, int64_t count)
      : bytes(static_cast<size_t>(count * size_bytes(type))), tensor(bytes.data(), type, {count}) {}
  [[nodiscard]] double at(int64_t i) const { return read_element(tensor, i); }
  void set(int64_t i, double value) { write_element(tensor, i, value); }
  std::vector<std::byte> bytes;
  Tensor tensor;
};

double expected_reduction(const CollectiveCall& call, int ranks, int64_t i) {
  double result = value_of(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const double value = value_of(rank, i);
    if (call.reduce == ReduceOp::kMax) {
      result = std::max(result, value);
    } else if (call.reduce == ReduceOp::kMin) {
      result = std::min(result, value);
    } else {
      result += value;
    }
  }
  return call.reduce == ReduceOp::kMean ? result / ranks : result;
}

double expected(const CollectiveCall& call, int ranks, int rank, int64_t i) {
  const int64_t block = call.count == 0 ? 0 : i / call.count;
  const int64_t within = call.count == 0 ? 0 : i % call.count;
  switch (call.op) {
    case CollectiveOp::kBroadcast:
      return value_of(call.root, i);
    case CollectiveOp::kScatter:
      return value_of(call.root, rank * call.count + i);
    case CollectiveOp::kGather:
    case CollectiveOp::kAllGather:
      return value_of(static_cast<int>(block), within);
    case CollectiveOp::kReduceScatter:
      return expected_reduction(call, ranks, rank * call.count + i);
    case CollectiveOp::kAllToAll:
      return value_of(static_cast<int>(block), rank * call.count + within);
    default:
      return expected_reduction(call, ranks, i);
  }
}

bool full_input(CollectiveOp op) {
  return op == CollectiveOp::kScatter || op == CollectiveOp::kReduceScatter ||
         op == CollectiveOp::kAllToAll;
}
bool full_output(CollectiveOp op) {
  return op == CollectiveOp::kGather || op == CollectiveOp::kAllGather ||
         op == CollectiveOp::kAllToAll;
}

// Makes the call with buffers of its own and checks the result.
void check_call(Communicator& comm, CollectiveCall call, bool in_place) {
  const int ranks = comm.size();
  const int rank = comm.rank();
  const int64_t in_count = call.count * (full_input(call.op) ? ranks : 1);
  const int64_t out_count = call.count * (full_output(call.op) ? ranks : 1);
  Buffer in(call.dtype, in_count);
  Buffer out(call.dtype, out_count);
  for (int64_t i = 0; i < in_count; ++i) in.set(i, value_of(rank, i));
  const bool broadcast = call.op == CollectiveOp::kBroadcast;
  Buffer* result = &out;
  int64_t result_begin = 0;
  call.in = in.tensor.data;
  call.out = out.tensor.data;
  if (broadcast || (in_place && in_count == out_count)) {
    result = &in;
    call.out = in.tensor.data;
  } else if (in_place && full_input(call.op)) {
    result = &in;
    result_begin = rank * call.count;
    call.out = in.bytes.data() + result_begin * size_bytes(call.dtype);
  } else if (in_place) {
    for (int64_t i = 0; i < in_count; ++i) out.set(rank * call.count + i, in.at(i));
    call.in = out.bytes.data() + rank * call.count * size_bytes(call.dtype);
  }
  comm.run(call);
  const bool root_only = call.op == CollectiveOp::kGather || call.op == CollectiveOp::kReduce;
  if (root_only && rank != call.root) return;
  Buffer want(call.dtype, 1);
  for (int64_t i = 0; i < out_count; ++i) {
    want.set(0, expected(call, ranks, rank, i));
    ASSERT_EQ(result->at(result_begin + i), want.at(0))
        << describe(call, 0) << " " << name_of(call.algorithm) << " rank " << rank << " of "
        << ranks << " element " << i;
  }
}

bool is_integer(DType dtype) {
  return dtype == DType::kI32 || dtype == DType::kI64 || dtype == DType::kU8;
}

// The types and reductions take turns, so that all of them meet all algorithms.
void check_all_ops(Communicator& comm) {
  constexpr CollectiveOp kOps[] = {CollectiveOp::kBroadcast, CollectiveOp::kScatter,
                                   CollectiveOp::kGather,    CollectiveOp::kReduce,
                                   CollectiveOp::kAllGather, CollectiveOp::kReduceScatter,
                                   CollectiveOp::kAllReduce, CollectiveOp::kAllToAll};
  int turn = 0;
  for (const CollectiveOp op : kOps) {
    std::vector<Algorithm> algorithms(supported_algorithms(op).begin(),
                                      supported_algorithms(op).end());
    algorithms.push_back(Algorithm::kAuto);
    for (const Algorithm algorithm : algorithms) {
      for (const int64_t count : {0, 1, 7, 1025}) {
        for (const bool in_place : {false, true}) {
          ++turn;
          const DType dtype = kDTypes[turn % std::size(kDTypes)];
          const auto reduce = static_cast<ReduceOp>(turn % kNumReduceOps);
          const bool mean_of_integers = reduce == ReduceOp::kMean && is_integer(dtype);
          check_call(comm,
                     {.op = op,
                      .reduce = mean_of_integers ? ReduceOp::kSum : reduce,
                      .dtype = dtype,
                      .root = has_root(op) ? turn % comm.size() : 0,
                      .count = count,
                      .algorithm = algorithm},
                     in_place);
        }
      }
    }
  }
}

struct Network {
  int ranks;
  bool rendezvous;
  int longest_us;
};

class MessageCollectivesTest : public ::testing::TestWithParam<Network> {};

TEST_P(MessageCollectivesTest, GiveTheRightResult) {
  const auto [ranks, rendezvous, longest_us] = GetParam();
  QueueNetwork network({.ranks = ranks,
                        .rendezvous = rendezvous,
                        .longest = std::chrono::microseconds(longest_us),
                        .ranks_per_node = 2});
  expect_no_errors(run_message_ranks(network, ranks, patient(), [](CommWorld& world) {
    const auto comm = world.join_all("world");
    check_all_ops(*comm);
  }));
}

TEST_P(MessageCollectivesTest, BarriersHoldUntilTheLastHasCome) {
  const auto [ranks, rendezvous, longest_us] = GetParam();
  QueueNetwork network(
      {.ranks = ranks, .rendezvous = rendezvous, .longest = std::chrono::microseconds(longest_us)});
  std::atomic<int> arrived{0};
  expect_no_errors(run_message_ranks(network, ranks, patient(), [&](CommWorld& world) {
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

TEST_P(MessageCollectivesTest, AllToAllWithCounts) {
  const auto [ranks, rendezvous, longest_us] = GetParam();
  QueueNetwork network(
      {.ranks = ranks, .rendezvous = rendezvous, .longest = std::chrono::microseconds(longest_us)});
  const auto sent = [](int from, int to, int round) {
    return int64_t{(from * 5 + to * 3 + round) % 4};
  };
  expect_no_errors(run_message_ranks(network, ranks, patient(), [&](CommWorld& world) {
    const auto comm = world.join_all("world");
    const int rank = comm->rank();
    for (int round = 0; round < 5; ++round) {
      std::vector<int64_t> send_counts, receive_counts;
      std::vector<int32_t> in, want;
      for (int peer = 0; peer < world.size(); ++peer) {
        send_counts.push_back(sent(rank, peer, round));
        receive_counts.push_back(sent(peer, rank, round));
        for (int i = 0; i < send_counts.back(); ++i) in.push_back(rank * 100 + peer * 10 + i);
        for (int i = 0; i < receive_counts.back(); ++i) want.push_back(peer * 100 + rank * 10 + i);
      }
      std::vector<int32_t> out(want.size());
      comm->all_to_all_v(in.data(), send_counts, out.data(), receive_counts, DType::kI32);
      EXPECT_EQ(out, want);
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Networks, MessageCollectivesTest,
                         ::testing::Values(Network{1, false, 0}, Network{2, false, 0},
                                           Network{3, true, 0}, Network{4, true, 50},
                                           Network{5, false, 50}, Network{8, false, 0},
                                           Network{9, true, 0}),
                         [](const auto& test) {
                           return fmt::format("{}_{}_{}us", test.param.ranks,
                                              test.param.rendezvous ? "rendezvous" : "eager",
                                              test.param.longest_us);
                         });

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
  options.selection = parse_selection("broadcast:0-1k:tree#1k-inf:ring");
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
