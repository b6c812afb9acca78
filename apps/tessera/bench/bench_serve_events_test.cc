#include "bench/bench_serve_events.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera {
namespace {

std::vector<std::string> events_of(const std::string& bytes, size_t part, bool* inside = nullptr) {
  std::vector<std::string> events;
  SseParser parser;
  for (size_t i = 0; i < bytes.size(); i += part) {
    EXPECT_TRUE(parser.feed(bytes.substr(i, part),
                            [&](std::string_view data) { events.emplace_back(data); }));
  }
  if (inside != nullptr) *inside = parser.is_inside_event();
  return events;
}

TEST(SseParserTest, ReadsEventsHoweverTheyAreCut) {
  const std::string bytes =
      ": ping\n\ndata: one\n\nid: 7\nevent: x\ndata: two\ndata:three\ndata\n\nretry: 5\n\n"
      "data: four\r\n\r\ndata: five\r\rdatum: no\n\ndata:  six\n\n";
  const std::vector<std::string> expected = {"one", "two\nthree\n", "four", "five", " six"};
  for (size_t part = 1; part <= bytes.size(); ++part) {
    bool inside = true;
    EXPECT_EQ(events_of(bytes, part, &inside), expected) << "in parts of " << part;
    EXPECT_FALSE(inside);
  }
}

TEST(SseParserTest, AnEventThatHasNotEndedIsNone) {
  for (const char* bytes : {"data: a\n\ndata: b", "data: a\n\ndata: b\n"}) {
    bool inside = false;
    EXPECT_EQ(events_of(bytes, 3, &inside), std::vector<std::string>{"a"});
    EXPECT_TRUE(inside);
  }
}

TEST(SseParserTest, RefusesWhatIsTooLarge) {
  for (const bool lines : {false, true}) {
    SseParser parser(100);
    int events = 0;
    bool fits = parser.feed("data: ok\n\n", [&](std::string_view) { ++events; });
    for (int i = 0; i < 50 && fits; ++i) {
      fits = parser.feed(lines ? "data: x\n" : "data: ", [&](std::string_view) { ++events; });
    }
    EXPECT_FALSE(fits);
    EXPECT_FALSE(parser.feed("\n\n", [&](std::string_view) { ++events; }));
    EXPECT_EQ(events, 1);
  }
}

}  // namespace
}  // namespace tessera
