#include "train/state/replicas.h"

#include <gtest/gtest.h>

#include <set>

#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

TEST(ReplicasTest, EveryBitCounts) {
  std::vector<std::byte> bytes(77, std::byte{3});
  std::set<uint64_t> hashes = {hash_bytes(bytes)};
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
    hashes.insert(hash_bytes(bytes));
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
  }
  EXPECT_EQ(hashes.size(), 8 * bytes.size() + 1);
  EXPECT_NE(hash_bytes(std::span(bytes).first(76)), hash_bytes(bytes));
  EXPECT_EQ(hash_bytes(bytes), *hashes.find(hash_bytes(bytes)));
}

TEST(ReplicasTest, TheMajorityNamesTheOddOne) {
  const std::vector<std::vector<HeldState>> same(3, {{"a", 1}, {"b", 2}});
  EXPECT_FALSE(find_difference(same).has_value());
  auto odd = same;
  odd[1][1].hash = 9;
  const auto found = find_difference(odd);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->what, "b");
  EXPECT_TRUE(found->majority);
  EXPECT_EQ(found->odd, std::vector<int>{1});
  EXPECT_EQ(found->holders, (std::vector<int>{0, 1, 2}));
}

// Either of two that differ, or of two pairs, may be right.
TEST(ReplicasTest, WithoutAMajorityAllAreNamed) {
  for (const auto& ranks :
       {std::vector<std::vector<HeldState>>{{{"a", 1}}, {{"a", 2}}},
        std::vector<std::vector<HeldState>>{{{"a", 1}}, {{"a", 2}}, {{"a", 2}}, {{"a", 1}}}}) {
    const auto found = find_difference(ranks);
    ASSERT_TRUE(found.has_value());
    EXPECT_FALSE(found->majority);
    EXPECT_EQ(found->odd.size(), ranks.size());
  }
}

// What one rank alone holds has nothing to be compared with.
TEST(ReplicasTest, WhatIsHeldOnceIsNotCompared) {
  EXPECT_FALSE(find_difference({{{"a", 1}}, {{"b", 2}}}).has_value());
}

TEST(ReplicasTest, TravelsAsText) {
  const std::vector<HeldState> held = {{"blocks.0.weights 0 0", 0xfedcba9876543210}, {"a=b", 7}};
  const std::vector<HeldState> back = parse_held_state(text_of(held));
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[0].what, held[0].what);
  EXPECT_EQ(back[0].hash, held[0].hash);
  EXPECT_EQ(back[1].what, "a=b");
  EXPECT_THROW(parse_held_state("a=xyz\n"), Error);
}

}  // namespace
}  // namespace tessera
