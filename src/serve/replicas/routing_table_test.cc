#include "serve/replicas/routing_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "base/error.h"

namespace tessera::serve {
namespace {

std::vector<int32_t> counting(int32_t from, size_t count) {
  std::vector<int32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = from + static_cast<int32_t>(i);
  return tokens;
}

TEST(RoutingTableTest, KnowsTheLongestBeginningOfEachReplicaInWholeBlocks) {
  RoutingTable table({.replicas = 3, .block_tokens = 4});
  const std::vector<int32_t> prompt = counting(0, 18);
  table.sent(0, prompt, "");
  table.sent(2, std::span(prompt).first(9), "");
  EXPECT_EQ(table.known(prompt, ""), (std::vector<int64_t>{16, 0, 8}));
  std::vector<int32_t> other = prompt;
  other[5] = 99;
  EXPECT_EQ(table.known(other, ""), (std::vector<int64_t>{4, 0, 4}));
  EXPECT_EQ(table.known(counting(1, 18), ""), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(table.known(prompt, "tenant"), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(table.known(std::span(prompt).first(3), ""), (std::vector<int64_t>{0, 0, 0}));
  table.forget(0);
  EXPECT_EQ(table.known(prompt, ""), (std::vector<int64_t>{0, 0, 8}));
  EXPECT_EQ(table.blocks(), 2U);
}

TEST(RoutingTableTest, BeginningsOutliveEndings) {
  RoutingTable table({.replicas = 1, .block_tokens = 1, .most_blocks = 6});
  table.sent(0, counting(0, 4), "");
  table.sent(0, counting(50, 4), "");
  EXPECT_EQ(table.blocks(), 6U);
  EXPECT_EQ(table.known(counting(0, 4), "")[0], 2) << "its end was forgotten";
  EXPECT_EQ(table.known(counting(50, 4), "")[0], 4);
  table.sent(0, counting(0, 100), "");
  EXPECT_EQ(table.blocks(), 6U);
  EXPECT_EQ(table.known(counting(0, 100), "")[0], 6);
}

TEST(RoutingTableTest, HasAtMostAsManyReplicasAsBits) {
  EXPECT_THROW(RoutingTable({.replicas = 0}), ConfigError);
  EXPECT_THROW(RoutingTable({.replicas = 65}), ConfigError);
  RoutingTable table({.replicas = 64, .block_tokens = 1});
  table.sent(63, counting(0, 3), "");
  EXPECT_EQ(table.known(counting(0, 3), "").back(), 3);
}

// Against the prompts themselves.
TEST(RoutingTableTest, IsWhatANaiveMemorySays) {
  std::mt19937 random(3);
  const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  for (int round = 0; round < 40; ++round) {
    const int replicas = 1 + static_cast<int>(below(5));
    const int64_t block = 1 + static_cast<int64_t>(below(4));
    RoutingTable table({.replicas = replicas, .block_tokens = block, .most_blocks = 100'000});
    std::vector<std::set<std::vector<int32_t>>> naive(static_cast<size_t>(replicas));
    for (int event = 0; event < 100; ++event) {
      std::vector<int32_t> prompt(below(14));
      for (int32_t& token : prompt) token = static_cast<int32_t>(below(2));
      const size_t replica = below(naive.size());
      const auto size = static_cast<size_t>(block);
      if (below(20) == 0) {
        table.forget(static_cast<int>(replica));
        naive[replica].clear();
      } else if (below(2) == 0) {
        table.sent(static_cast<int>(replica), prompt, "");
        for (size_t n = size; n <= prompt.size(); n += size) {
          naive[replica].insert({prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(n)});
        }
      }
      const std::vector<int64_t> known = table.known(prompt, "");
      for (size_t r = 0; r < naive.size(); ++r) {
        size_t n = 0;
        while (n + size <= prompt.size() &&
               naive[r].contains(
                   {prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(n + size)})) {
          n += size;
        }
        ASSERT_EQ(known[r], static_cast<int64_t>(n));
      }
    }
  }
}

TEST(OrderOfReplicasTest, BeginningsBeatLoadUntilThereIsMuchOfIt) {
  using Sights = std::vector<ReplicaSight>;
  EXPECT_EQ(order_of_replicas(Sights{{true, 0, 10}, {true, 0, 5}, {true, 0, 5}}),
            (std::vector<int>{1, 2, 0}));
  EXPECT_EQ(order_of_replicas(Sights{{true, 0, 0}, {true, 16, 50}}), (std::vector<int>{1, 0}));
  EXPECT_EQ(order_of_replicas(Sights{{true, 0, 0}, {true, 16, 70}}), (std::vector<int>{0, 1}));
  EXPECT_EQ(order_of_replicas(Sights{{false, 99, 0}, {true, 0, 70}}), (std::vector<int>{1}));
  EXPECT_TRUE(order_of_replicas(Sights{{false, 0, 0}}).empty());
}

}  // namespace
}  // namespace tessera::serve
