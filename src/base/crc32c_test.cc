#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace tessera {
namespace {

// The definition, bit by bit.
uint32_t by_bits(std::span<const std::byte> bytes) {
  uint32_t crc = 0xFFFFFFFFU;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

std::vector<std::byte> random_bytes(size_t count, uint32_t seed) {
  std::mt19937 dice(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(dice() & 0xFF);
  return bytes;
}

TEST(Crc32cTest, HasTheKnownAnswers) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
}

TEST(Crc32cTest, InstructionAndTablesAreTheDefinition) {
  const std::vector<std::byte> bytes = random_bytes(20'000, 1);
  for (const size_t count : std::initializer_list<size_t>{0, 1, 7, 8, 9, 63, 2047, 6143, 6144, 6145,
                                                          12287, 12288, 19'990}) {
    for (size_t begin = 0; begin < 9; begin += 3) {
      const auto part = std::span(bytes).subspan(begin, count);
      EXPECT_EQ(crc32c(part), by_bits(part)) << count << " from " << begin;
      EXPECT_EQ(crc32c_by_tables(part), by_bits(part)) << count << " from " << begin;
    }
  }
}

TEST(Crc32cTest, GoesOnFromASum) {
  const std::vector<std::byte> bytes = random_bytes(15'000, 2);
  const std::span<const std::byte> all(bytes);
  for (const size_t cut : std::initializer_list<size_t>{0, 1, 5, 4096, 6144, 14'999, 15'000}) {
    EXPECT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), crc32c(all)) << cut;
    EXPECT_EQ(crc32c_by_tables(all.subspan(cut), crc32c(all.first(cut))), crc32c(all)) << cut;
  }
}

TEST(Crc32cTest, CopiesWhatItSums) {
  const std::vector<std::byte> bytes = random_bytes(100'001, 3);
  std::vector<std::byte> copy(bytes.size());
  EXPECT_EQ(copy_with_crc32c(copy.data(), bytes, 17), crc32c(bytes, 17));
  EXPECT_EQ(copy, bytes);
}

TEST(Crc32cTest, SeesEveryBit) {
  std::vector<std::byte> bytes = random_bytes(7000, 4);
  const uint32_t sum = crc32c(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 997) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(crc32c(bytes), sum) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

}  // namespace
}  // namespace tessera
