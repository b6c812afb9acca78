#include "comm/tree_sum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/tree_shares.h"
#include "comm/reduce.h"
#include "comm/testing/message_world.h"
#include "comm/testing/run_ranks.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests

template <typename T>
using Leaves = std::vector<std::vector<T>>;

template <typename T>
Leaves<T> random_leaves(int64_t leaves, int64_t count) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> values(-1, 1);
  Leaves<T> result(static_cast<size_t>(leaves));
  for (std::vector<T>& leaf : result) {
    for (int64_t i = 0; i < count; ++i) leaf.push_back(static_cast<T>(values(random)));
  }
  return result;
}

// Rounded after every addition.
template <typename T>
T sum_of(const Leaves<T>& leaves, TreeShare share, size_t element) {
  if (share.count == 1) return leaves[static_cast<size_t>(share.first)][element];
  const int64_t half = share.count / 2;
  const T left = sum_of(leaves, {share.first, half}, element);
  const T right = sum_of(leaves, {share.first + half, half}, element);
  if constexpr (std::is_same_v<T, BFloat16>) {
    return BFloat16(static_cast<float>(left) + static_cast<float>(right));
  } else {
    return left + right;
  }
}

template <typename T>
std::vector<T> sum_of(const Leaves<T>& leaves, TreeShare share) {
  std::vector<T> result;
  for (size_t i = 0; i < leaves[0].size(); ++i) result.push_back(sum_of(leaves, share, i));
  return result;
}

template <typename T>
bool same_bits(const T* a, const std::vector<T>& b) {
  return std::memcmp(a, b.data(), b.size() * sizeof(T)) == 0;
}

template <typename T>
DType type_of() {
  if constexpr (std::is_same_v<T, BFloat16>) return DType::kBF16;
  return std::is_same_v<T, float> ? DType::kF32 : DType::kF64;
}

template <typename T>
class TreeSumTest : public ::testing::Test {};
using ElementTypes = ::testing::Types<double, float, BFloat16>;
TYPED_TEST_SUITE(TreeSumTest, ElementTypes);

TYPED_TEST(TreeSumTest, AnyNumberOfOwnersGivesTheBitsOfOne) {
  using T = TypeParam;
  constexpr int64_t kLeaves = 8;
  for (const int64_t count : {1, 33, 5001}) {
    const Leaves<T> leaves = random_leaves<T>(kLeaves, count);
    const std::vector<T> whole = sum_of(leaves, {0, kLeaves});
    for (int64_t owners = 2; owners <= kLeaves; ++owners) {
      Leaves<T> parts;
      std::vector<const void*> sources;
      for (int64_t owner = 0; owner < owners; ++owner) {
        parts.push_back(sum_of(leaves, tree_share(kLeaves, owners, owner)));
      }
      for (const std::vector<T>& part : parts) sources.push_back(part.data());
      std::vector<T> apart(static_cast<size_t>(count));
      const std::vector<void*> targets = {parts[0].data(), apart.data(), parts.back().data()};
      reduce_in_order(ReduceOp::kTreeSum, type_of<T>(), sources, targets, count);
      for (void* target : targets) {
        EXPECT_TRUE(same_bits(static_cast<T*>(target), whole)) << owners << " owners";
      }
    }
  }
}

// What is wrong with what one rank gets of a reduce-scatter, and of an all-reduce in place.
std::string check_tree(CommWorld& world, const Leaves<float>& leaves) {
  const std::unique_ptr<Communicator> group = world.join_all("dp");
  const auto count = static_cast<int64_t>(leaves[0].size());
  const std::vector<float> whole = sum_of(leaves, {0, 8});
  std::vector<float> mine = sum_of(leaves, tree_share(8, group->size(), group->rank()));
  std::vector<float> block(static_cast<size_t>(count / group->size()));
  group->reduce_scatter(mine.data(), block.data(), count / group->size(), DType::kF32, 0,
                        ReduceOp::kTreeSum);
  const size_t at = block.size() * static_cast<size_t>(group->rank());
  const bool scattered =
      std::memcmp(block.data(), whole.data() + at, block.size() * sizeof(float)) == 0;
  group->all_reduce(mine.data(), count, DType::kF32, 0, ReduceOp::kTreeSum);
  return scattered ? (same_bits(mine.data(), whole) ? "" : "all_reduce") : "reduce_scatter";
}

constexpr int64_t kCounts[] = {120, 60'000};  // in mail, and straight between buffers

TEST(TreeReductionTest, BetweenThreadsAndBetweenProcesses) {
  for (const RunRanks run : {run_as_threads, run_as_processes}) {
    for (const int ranks : {2, 3, 5, 8}) {
      for (const int64_t count : kCounts) {
        const Leaves<float> leaves = random_leaves<float>(8, count);
        const auto outcomes =
            run({.ranks = ranks}, [&](CommWorld& world) { return check_tree(world, leaves); });
        EXPECT_EQ(errors_of(outcomes), "");
        for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.report, "");
      }
    }
  }
}

TEST(TreeReductionTest, ByMessages) {
  for (const int ranks : {2, 3, 5, 8}) {
    for (const int64_t count : kCounts) {
      const Leaves<float> leaves = random_leaves<float>(8, count);
      QueueNetwork network({.ranks = ranks});
      expect_no_errors(run_message_ranks(network, ranks, patient(), [&](CommWorld& world) {
        EXPECT_EQ(check_tree(world, leaves), "");
      }));
    }
  }
}

TEST(TreeReductionTest, TwinsThatDifferAreNamed) {
  const Leaves<float> leaves = random_leaves<float>(8, 6000);
  for (const bool flip : {false, true}) {
    const auto outcomes = run_as_threads({.ranks = 6}, [&](CommWorld& world) {
      const std::unique_ptr<Communicator> group = world.join_all("dp");
      std::vector<float> mine = sum_of(leaves, tree_share(8, 3, group->rank() % 3));
      if (flip && group->rank() == 4) mine[4321] += 1.0F;
      group->all_reduce(mine.data(), 6000, DType::kF32, 0, ReduceOp::kTwinSum);
      return std::string(same_bits(mine.data(), sum_of(leaves, {0, 8})) ? "" : "other bits");
    });
    if (!flip) {
      EXPECT_EQ(errors_of(outcomes), "");
      for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.report, "");
    } else {
      EXPECT_TRUE(contains(errors_of(outcomes), "ranks 0 to 2 of the group and ranks 3 to 5"))
          << errors_of(outcomes);
    }
  }
}

TEST(TreeReductionTest, RefusesAlgorithmsWithAnOrderOfTheirOwn) {
  const auto outcomes = run_as_threads({.ranks = 2}, [&](CommWorld& world) {
    std::vector<float> data(64);
    world.join_all("dp")->run({.op = CollectiveOp::kAllReduce,
                               .reduce = ReduceOp::kTreeSum,
                               .count = 64,
                               .in = data.data(),
                               .out = data.data(),
                               .algorithm = Algorithm::kRing});
    return std::string();
  });
  EXPECT_TRUE(contains(errors_of(outcomes), "ring adds in an order of its own: use direct"))
      << errors_of(outcomes);
}

}  // namespace
}  // namespace tessera
