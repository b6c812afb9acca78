#include "watch/event_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace tessera {
namespace {

// Byte by byte, as the format says it: a length of 24, its sum, the time as a double, the version.
TEST(EventFileTest, HeadIsTheRecordThatReadersExpect) {
  const std::string head = event_file_head(0);
  ASSERT_EQ(head.size(), 12U + 24U + 4U);
  EXPECT_EQ(head.substr(0, 8), std::string("\x18\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(head.substr(12, 9), std::string("\x09\0\0\0\0\0\0\0\0", 9));
  EXPECT_EQ(head.substr(21, 15),
            "\x1a\x0d"
            "brain.Event:2");
}

TEST(EventFileTest, EncodesAScalarAsProtobuf) {
  const std::string record = event_record({.time = 0, .step = 300, .values = {{"a", 1.0}}});
  // time; step as the varint 0xac 0x02; summary { value { tag "a", simple_value 1.0f } }
  const std::string data = record.substr(12, record.size() - 16);
  EXPECT_EQ(data.substr(9), std::string("\x10\xac\x02\x2a\x0a\x0a\x08\x0a\x01"
                                        "a\x15\0\0\x80\x3f",
                                        15));
}

TEST(EventFileTest, ReadsBackWhatWasWritten) {
  std::string file = event_file_head(1000.5);
  for (int64_t step = 1; step <= 300; ++step) {
    file += event_record({.time = 1000.5 + static_cast<double>(step),
                          .step = step,
                          .values = {{"train/loss", 4.0 / static_cast<double>(step)},
                                     {"train/grad_norm", std::nan("")}}});
  }
  const std::vector<Scalars> events = read_event_file(file);
  ASSERT_EQ(events.size(), 300U);
  EXPECT_EQ(events[299].step, 300);
  EXPECT_DOUBLE_EQ(events[299].time, 1300.5);
  EXPECT_EQ(events[299].values[0].first, "train/loss");
  EXPECT_FLOAT_EQ(static_cast<float>(events[299].values[0].second), 4.0F / 300);
  EXPECT_TRUE(std::isnan(events[299].values[1].second));
}

TEST(EventFileTest, RefusesTornAndChangedFiles) {
  const std::string file = event_file_head(0) + event_record({0, 1, {{"a", 1.0}}});
  for (size_t size = 41; size < file.size(); ++size) {
    EXPECT_THROW(read_event_file(file.substr(0, size)), ConfigError) << size;
  }
  for (size_t i = 0; i < file.size(); ++i) {
    std::string changed = file;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_THROW(read_event_file(changed), ConfigError) << i;
  }
}

TEST(EventFileTest, TakesTheScalarsOfALine) {
  const Scalars scalars = scalars_of(
      parse_metrics_line(R"({"step":7,"time":12.5,"loss":"NaN","lr":0.5,"mfu":0.25,"other":1})"));
  EXPECT_EQ(scalars.step, 7);
  EXPECT_EQ(scalars.time, 12.5);
  ASSERT_EQ(scalars.values.size(), 3U);
  EXPECT_EQ(scalars.values[0].first, "train/loss");
  EXPECT_TRUE(std::isnan(scalars.values[0].second));
  EXPECT_EQ(scalars.values[2], std::make_pair(std::string("speed/mfu"), 0.25));
}

}  // namespace
}  // namespace tessera
