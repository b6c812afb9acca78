// Every collective against a plain reference, bit for bit, and the traffic it counts.
#include <algorithm>
#include <tuple>

#include "collective/slices.h"
#include "comm/local/test_ranks.h"

namespace tessera {
namespace {

using namespace tessera::testing;

constexpr int64_t kCounts[] = {0, 1, 7, 64, 1000, 4097, 100003};
constexpr int64_t kMaxCount = 100003;

template <typename T>
struct Inputs {
  explicit Inputs(int num_ranks) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      values.push_back(test_values<T>(rank, kMaxCount * num_ranks));
    }
    sums = reference_sum(values);
  }
  std::vector<std::vector<T>> values;  // by rank
  std::vector<T> sums;
};

// One rank's view: its input, its communicator, and buffers that it overwrites after every call.
template <typename T>
class Checker {
 public:
  Checker(Communicator& comm, const Inputs<T>& inputs)
      : comm_(comm), inputs_(inputs), mine_(inputs.values[static_cast<size_t>(comm.rank())]) {}

  void all_reduce(int64_t count) {
    std::vector<T> data(mine_.begin(), mine_.begin() + count);
    comm_.all_reduce(data.data(), count, kType, 1);
    EXPECT_TRUE(same_bits(data.data(), inputs_.sums.data(), count));
  }

  void reduce_scatter(int64_t count, bool in_place) {
    std::vector<T> full(mine_.begin(), mine_.begin() + count * comm_.size());
    std::vector<T> apart(static_cast<size_t>(count));
    T* shard = in_place ? full.data() + comm_.rank() * count : apart.data();
    comm_.reduce_scatter(full.data(), shard, count, kType, 2);
    EXPECT_TRUE(same_bits(shard, inputs_.sums.data() + comm_.rank() * count, count));
    if (in_place) return;
    EXPECT_TRUE(same_bits(full.data(), mine_.data(), count * comm_.size()));
  }

  void all_gather(int64_t count, bool in_place) {
    std::vector<T> full(static_cast<size_t>(count * comm_.size()));
    std::vector<T> apart(mine_.begin(), mine_.begin() + count);
    T* place = full.data() + comm_.rank() * count;
    if (in_place) std::copy(apart.begin(), apart.end(), place);
    comm_.all_gather(in_place ? place : apart.data(), full.data(), count, kType, 3);
    for (int peer = 0; peer < comm_.size(); ++peer) {
      const T* expected = inputs_.values[static_cast<size_t>(peer)].data();
      EXPECT_TRUE(same_bits(full.data() + peer * count, expected, count));
    }
  }

  void broadcast(int64_t count, int root) {
    std::vector<T> data(mine_.begin(), mine_.begin() + count);
    comm_.broadcast(data.data(), count, kType, root, 4);
    EXPECT_TRUE(same_bits(data.data(), inputs_.values[static_cast<size_t>(root)].data(), count));
  }

 private:
  static constexpr DType kType = Element<T>::kDType;
  Communicator& comm_;
  const Inputs<T>& inputs_;
  const std::vector<T>& mine_;
};

template <typename T>
void check_all(int num_ranks) {
  const Inputs<T> inputs(num_ranks);
  LocalWorld world({.size = num_ranks, .timeout = std::chrono::seconds(20)});
  expect_no_errors(run_ranks(num_ranks, [&](int rank) {
    const auto comm = world.join("world", iota_ranks(num_ranks), rank);
    Checker<T> check(*comm, inputs);
    for (const int64_t count : kCounts) {
      check.all_reduce(count);
      check.reduce_scatter(count, /*in_place=*/false);
      check.all_gather(count, /*in_place=*/false);
      check.reduce_scatter(count, /*in_place=*/true);
      check.all_gather(count, /*in_place=*/true);
      check.broadcast(count, static_cast<int>(count) % num_ranks);
      comm->barrier(5);
    }
  }));
}

class LocalCollectivesTest : public ::testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(LocalCollectivesTest, MatchReference) {
  const auto [num_ranks, dtype] = GetParam();
  switch (dtype) {
    case DType::kF64:
      return check_all<double>(num_ranks);
    case DType::kF32:
      return check_all<float>(num_ranks);
    case DType::kBF16:
      return check_all<BFloat16>(num_ranks);
    case DType::kI32:
      return check_all<int32_t>(num_ranks);
    default:
      FAIL() << name_of(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, LocalCollectivesTest,
                         ::testing::Combine(::testing::Range(1, 9),
                                            ::testing::Values(DType::kF64, DType::kF32,
                                                              DType::kBF16, DType::kI32)),
                         [](const auto& test) {
                           return std::string(name_of(std::get<1>(test.param))) + "_" +
                                  std::to_string(std::get<0>(test.param));
                         });

// A peer that was not woken would sleep out its 50 ms in every round.
TEST(LocalWakeTest, SleepingPeersAreWoken) {
  constexpr int kRounds = 30;
  LocalWorld world({.size = 3, .timeout = std::chrono::seconds(20)});
  const auto start = std::chrono::steady_clock::now();
  expect_no_errors(run_ranks(3, [&](int rank) {
    const auto comm = world.join("world", iota_ranks(3), rank);
    for (int round = 0; round < kRounds; ++round) {
      if (rank == round % 3) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      comm->barrier(0);
    }
  }));
  EXPECT_LT(std::chrono::steady_clock::now() - start, kRounds * std::chrono::milliseconds(25));
}

int64_t bytes_of(const TrafficCounters& counters, CollectiveOp op) {
  return counters[static_cast<size_t>(op)].bytes_sent;
}

int64_t calls_of(const TrafficCounters& counters, CollectiveOp op) {
  return counters[static_cast<size_t>(op)].calls;
}

class TrafficTest : public ::testing::TestWithParam<int> {};

// The formulas are the ones the planner prices with.
TEST_P(TrafficTest, CountsWhatMoves) {
  const int n = GetParam();
  constexpr int64_t kCount = 1001;
  LocalWorld world({.size = n, .timeout = std::chrono::seconds(20)});
  expect_no_errors(run_ranks(n, [&](int rank) {
    const auto comm = world.join("world", iota_ranks(n), rank);
    std::vector<float> full(static_cast<size_t>(kCount * n), 1.0F);
    std::vector<float> shard(kCount, 1.0F);
    const int64_t slice_bytes = 4 * all_reduce_slice(kCount, 4, rank, n).size();
    for (int repeat = 1; repeat <= 3; ++repeat) {
      comm->all_reduce(shard.data(), kCount, DType::kF32, 0);
      comm->reduce_scatter(full.data(), shard.data(), kCount, DType::kF32, 0);
      comm->all_gather(shard.data(), full.data(), kCount, DType::kF32, 0);
      comm->broadcast(shard.data(), kCount, DType::kF32, n - 1, 0);
      comm->barrier(0);
      const TrafficCounters seen = comm->counters();
      const int64_t other_bytes = 4 * kCount * (n - 1);
      const bool one_shot =
          choose_algorithm(CollectiveOp::kAllReduce, 4 * kCount, n) == Algorithm::kOneShot;
      const int64_t two_shot_bytes = 4 * kCount - slice_bytes + slice_bytes * (n - 1);
      EXPECT_EQ(bytes_of(seen, CollectiveOp::kAllReduce),
                repeat * (one_shot ? other_bytes : two_shot_bytes) * (n > 1));
      EXPECT_EQ(bytes_of(seen, CollectiveOp::kReduceScatter), repeat * other_bytes);
      EXPECT_EQ(bytes_of(seen, CollectiveOp::kAllGather), repeat * other_bytes);
      EXPECT_EQ(bytes_of(seen, CollectiveOp::kBroadcast), rank == n - 1 ? repeat * other_bytes : 0);
      EXPECT_EQ(bytes_of(seen, CollectiveOp::kBarrier), 0);
      EXPECT_EQ(calls_of(seen, CollectiveOp::kAllReduce), repeat);
      EXPECT_EQ(calls_of(seen, CollectiveOp::kBarrier), repeat);
      EXPECT_EQ(calls_of(seen, CollectiveOp::kReduce), 0);
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Groups, TrafficTest, ::testing::Range(1, 9));

}  // namespace
}  // namespace tessera
