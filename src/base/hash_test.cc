#include "base/hash.h"

#include <gtest/gtest.h>

#include <bit>

namespace tessera {
namespace {

template <typename... Values>
uint64_t hash_of(Values... values) {
  Hasher hasher;
  (hasher.add(values), ...);
  return hasher.value();
}

// Vectors from the FNV reference (64-bit FNV-1a).
TEST(HashTest, NamesMatchThePublishedVectors) {
  EXPECT_EQ(hash_name(""), 0xcbf29ce484222325U);
  EXPECT_EQ(hash_name("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(hash_name("foobar"), 0x85944171f73967e8U);
}

TEST(HashTest, DependsOnValuesOrderAndGrouping) {
  EXPECT_EQ(hash_of("ab", int64_t{3}), hash_of("ab", int64_t{3}));
  EXPECT_NE(hash_of("ab", "c"), hash_of("a", "bc"));
  EXPECT_NE(hash_of("a", "b"), hash_of("b", "a"));
  EXPECT_NE(hash_of(int64_t{1}), hash_of(int64_t{2}));
  EXPECT_NE(hash_of(1.0), hash_of(-1.0));
  EXPECT_NE(hash_of(""), hash_of());
}

TEST(HashTest, IntegersHashByValueWhateverTheirWidth) {
  EXPECT_EQ(hash_of(5), hash_of(uint64_t{5}));
  EXPECT_EQ(hash_of(int8_t{-1}), hash_of(int64_t{-1}));
  EXPECT_EQ(hash_of(uint32_t{0xffffffff}), hash_of(int64_t{0xffffffff}));
}

TEST(HashTest, OneBitOfInputChangesAboutHalfOfTheOutput) {
  int changed = 0;
  for (int bit = 0; bit < 64; ++bit) {
    changed += std::popcount(hash_of(uint64_t{0}) ^ hash_of(uint64_t{1} << bit));
  }
  EXPECT_NEAR(changed / 64.0, 32.0, 4.0);
}

TEST(HashTest, HexHasSixteenDigits) {
  EXPECT_EQ(hex(0), "0000000000000000");
  EXPECT_EQ(hex(0xDEADBEEFULL), "00000000deadbeef");
}

}  // namespace
}  // namespace tessera
