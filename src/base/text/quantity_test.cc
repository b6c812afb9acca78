#include "base/text/quantity.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/message_of.h"

namespace tessera {
namespace {

TEST(QuantityTest, CountsAreWrittenAsPeopleSayThem) {
  EXPECT_EQ(parse_count("8192"), 8192);
  EXPECT_EQ(parse_count("8k"), 8000);
  EXPECT_EQ(parse_count("8K"), 8000);
  EXPECT_EQ(parse_count("1e3"), 1000);
  EXPECT_EQ(parse_count("1.5M"), 1'500'000);
  EXPECT_EQ(parse_count("4.1M"), 4'100'000);
  EXPECT_EQ(parse_count(" 15T "), 15'000'000'000'000);
  EXPECT_EQ(parse_count("4Mi"), 4 << 20);
  EXPECT_EQ(parse_count("-5"), -5);
  EXPECT_EQ(parse_count("9223372036854775807"), INT64_MAX) << "every digit counts";
}

TEST(QuantityTest, LengthsGoByPowersOfTwo) {
  EXPECT_EQ(parse_count("8k", Thousand::kBinary), 8192);
  EXPECT_EQ(parse_count("128K", Thousand::kBinary), 131'072);
  EXPECT_EQ(parse_count("1M", Thousand::kBinary), 1 << 20);
  EXPECT_EQ(parse_count("8000", Thousand::kBinary), 8000);
  EXPECT_EQ(parse_count("1e3", Thousand::kBinary), 1000) << "no k in it";
}

TEST(QuantityTest, WhatIsNoWholeNumberIsNoCount) {
  for (const char* text : {"", "k", "four", "1.5", "1.0005k", "8 x", "1e30", "nan", "inf", "8kk",
                           "0x10", "8,192", "9223372036854775808"}) {
    EXPECT_FALSE(parse_count(text).has_value()) << text;
  }
}

TEST(QuantityTest, TokensSaySo) {
  EXPECT_EQ(parse_tokens("4Mtok"), 4'000'000);
  EXPECT_EQ(parse_tokens("4Mi tokens"), 4 << 20);
  EXPECT_EQ(parse_tokens("2048tok"), 2048);
  EXPECT_FALSE(parse_tokens("4M").has_value());
  EXPECT_FALSE(parse_tokens("tok").has_value());
}

TEST(QuantityTest, BandwidthsInBitsHaveThreeSpellings) {
  for (const char* text : {"400Gbps", "400Gb/s", "400 Gbit/s", "50GB/s", "50e9"}) {
    EXPECT_EQ(parse_quantity(Unit::kBytesPerSecond, text, "--bandwidth"), 50e9) << text;
  }
  EXPECT_EQ(
      testing::message_of([] { parse_quantity(Unit::kBytesPerSecond, "400Gpbs", "--bandwidth"); }),
      "--bandwidth is \"400Gpbs\": expected a bandwidth, such as 25GB/s, or 400Gbps for bits");
}

TEST(QuantityTest, TimesAreReadAsTheyAreWritten) {
  for (const char* text : {"1 day", "30 days", "1 year", "2.5 years", "1.5 h", "12 ms", "1 s"}) {
    EXPECT_EQ(text_of({parse_quantity(Unit::kSeconds, text, "--save"), Unit::kSeconds}), text);
  }
  EXPECT_EQ(text_of({0.99997 * 86400, Unit::kSeconds}), "1 day") << "rounded";
}

}  // namespace
}  // namespace tessera
