#include "studio/line_follower.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing/test_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class LineFollowerTest : public ::testing::Test {
 protected:
  LineFollowerTest() { fs::create_directories(folder_.path("a")); }

  [[nodiscard]] std::string file() const { return folder_.path("a/metrics.jsonl"); }
  void append(const std::string& text) {
    std::ofstream(file(), std::ios::app | std::ios::binary) << text;
  }
  std::unique_ptr<LineFollower> follow(const std::string& place = "0") {
    return std::make_unique<LineFollower>(
        RunEntry{.id = "a", .name = "a", .folder = "a", .path = folder_.path("a")},
        *parse_line_place(place), facts_);
  }
  // All that is to be had now, without the state of the run and the greeting.
  static std::string all(LineFollower& follower) {
    std::string text;
    for (int i = 0; i < 10'000; ++i) {
      const http::EventPart part = follower.next();
      text += part.text;
      if (part.text.empty() && !part.more) break;
    }
    for (const std::string start : {"retry: ", "event: state\n"}) {
      while (text.find(start) != std::string::npos) {
        const size_t at = text.find(start);
        text.erase(at, text.find("\n\n", at) + 2 - at);
      }
    }
    return text;
  }
  static std::string last_id(const std::string& events) {
    const size_t at = events.rfind("id: ") + 4;
    return events.substr(at, events.find('\n', at) - at);
  }

  testing::TestFolder folder_;
  RunFacts facts_;
};

TEST_F(LineFollowerTest, SendsWholeLinesAsTheyCome) {
  const auto follower = follow();
  EXPECT_EQ(all(*follower), "");  // there is no file yet
  append("{\"step\":1");
  EXPECT_EQ(all(*follower), "");
  append("}\n{\"step\":2}\r\n\n{\"st");
  const std::string events = all(*follower);
  EXPECT_NE(events.find("data: {\"step\":1}\n\n"), std::string::npos);
  EXPECT_NE(events.find("data: {\"step\":2}\n\n"), std::string::npos);
  EXPECT_EQ(events.find("st\n"), std::string::npos);
  EXPECT_TRUE(last_id(events).starts_with("2.23."));
  append("ep\":3}\n");
  EXPECT_TRUE(last_id(all(*follower)).starts_with("4.35."));  // the third is empty
}

TEST_F(LineFollowerTest, SaysThatARunHasFinishedAfterItsLastLine) {
  folder_.write("a/resolved.json", "{}");
  folder_.write("a/summary.json", R"({"steps":9000})");
  for (int i = 1; i <= 9000; ++i) append(fmt::format("{{\"step\":{}}}\n", i));  // several parts
  const auto follower = follow();
  std::string text;
  http::EventPart part;
  do {
    part = follower->next();
    text += part.text;
  } while (part.more);
  const size_t state = text.find(R"("state":"finished")"), last = text.find(R"({"step":9000})");
  ASSERT_NE(state, std::string::npos);
  ASSERT_NE(last, std::string::npos);
  EXPECT_GT(state, last);
}

TEST_F(LineFollowerTest, ResumesAtEveryPlaceByteForByte) {
  for (int i = 1; i <= 200; ++i) append(fmt::format("{{\"step\":{}}}\n", i));
  const std::string whole = all(*follow());
  for (int line = 0; line <= 200; line += 7) {
    const std::string by_number = all(*follow(std::to_string(line)));
    ASSERT_TRUE(whole.ends_with(by_number)) << line;
    if (line == 0) continue;
    const size_t id = whole.find(fmt::format("id: {}.", line)) + 4;
    const std::string place = whole.substr(id, whole.find('\n', id) - id);
    EXPECT_EQ(all(*follow(place)), by_number) << place;
  }
  EXPECT_EQ(all(*follow("200")), "");
}

TEST_F(LineFollowerTest, ALongBacklogComesInParts) {
  const std::string filler(900, 'x');
  for (int i = 1; i <= 2000; ++i) append(fmt::format("{{\"step\":{},\"x\":\"{}\"}}\n", i, filler));
  const auto follower = follow();
  int lines = 0;
  for (http::EventPart part = follower->next(); part.more; part = follower->next()) {
    EXPECT_LT(part.text.size(), 2 * LineFollower::kPartBytes);
    for (size_t at = part.text.find("data: {\"step\""); at != std::string::npos;
         at = part.text.find("data: {\"step\"", at + 1)) {
      ++lines;
    }
  }
  EXPECT_EQ(lines, 2000);
}

TEST_F(LineFollowerTest, BeginsAgainAfterTruncationAndReplacement) {
  append("{\"step\":1}\n{\"step\":2}\n");
  const auto follower = follow();
  (void)all(*follower);
  std::ofstream(file(), std::ios::trunc);
  EXPECT_NE(all(*follower).find("id\nevent: reset\n"), std::string::npos);
  append("{\"step\":7}\n");
  EXPECT_TRUE(all(*follower).starts_with("id: 1.11."));
  // Another file of the same length and more.
  folder_.write("new", "{\"step\":8}\n{\"step\":9}\n");
  fs::rename(folder_.path("new"), file());
  const std::string events = all(*follower);
  EXPECT_LT(events.find("event: reset"), events.find("data: {\"step\":8}"));
  EXPECT_TRUE(last_id(events).starts_with("2."));
}

// As after a restart from a checkpoint, whose steps were quick.
TEST_F(LineFollowerTest, BeginsAgainWhenTheFileWasCutAndGrewBeyondThePlace) {
  append("{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  const auto follower = follow();
  (void)all(*follower);
  folder_.write("new", "{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"again\":1}\n{\"step\":4}\n");
  fs::rename(folder_.path("new"), file());
  const std::string events = all(*follower);
  EXPECT_NE(events.find("event: reset\n"), std::string::npos);
  EXPECT_NE(events.find("data: {\"step\":3,\"again\":1}\n\n"), std::string::npos);
  EXPECT_TRUE(last_id(events).starts_with("4."));
}

TEST_F(LineFollowerTest, SaysWhenTheJournalHasChanged) {
  append("{\"step\":1}\n");
  const auto follower = follow();
  EXPECT_EQ(all(*follower).find("journal"), std::string::npos);
  folder_.write("a/events.jsonl", "{\"event\":\"save\"}\n");
  EXPECT_EQ(all(*follower), "event: journal\ndata: {\"bytes\":17}\n\n");
  EXPECT_EQ(all(*follower), "");
  folder_.write("a/events.jsonl", "{\"event\":\"save\"}\n{\"event\":\"save\"}\n");
  EXPECT_EQ(all(*follower), "event: journal\ndata: {\"bytes\":34}\n\n");
  // Whoever comes to a file that is there is told at once: it may have changed while there was no
  // server.
  EXPECT_NE(all(*follow("1")).find("event: journal\n"), std::string::npos);
}

TEST_F(LineFollowerTest, APlaceOfAnotherFileBeginsAgain) {
  append("{\"step\":1}\n{\"step\":2}\n");
  const std::string id = last_id(all(*follow()));
  std::ofstream(file(), std::ios::trunc) << "{\"step\":5}\n{\"step\":6}\n{\"step\":7}\n";
  const std::string events = all(*follow(id));
  EXPECT_TRUE(events.starts_with("id\nevent: reset\n"));
  EXPECT_NE(events.find("data: {\"step\":5}"), std::string::npos);
  // As does a place in the middle of a line.
  const std::string key = last_id(events).substr(last_id(events).rfind('.'));
  EXPECT_TRUE(all(*follow("1.5" + key)).starts_with("id\nevent: reset\n"));
}

TEST_F(LineFollowerTest, PassesOverALineThatIsTooLong) {
  append("{\"step\":1}\n");
  append(std::string(LineFollower::kLongestLine + 100, 'x'));
  const auto follower = follow();
  EXPECT_NE(all(*follower).find("data: {\"step\":1}"), std::string::npos);
  append(std::string(LineFollower::kLongestLine, 'y') + "\n{\"step\":3}\n");
  const std::string events = all(*follower);
  EXPECT_NE(events.find("event: skipped\ndata: {\"line\":2,"), std::string::npos);
  EXPECT_NE(events.find("data: {\"step\":3}"), std::string::npos);
  EXPECT_TRUE(last_id(events).starts_with("3."));
}

TEST(LinePlaceTest, IsReadAsItIsWritten) {
  const LinePlace place{12, 4621, "9f3a1c2b"};
  EXPECT_EQ(place.text(), "12.4621.9f3a1c2b");
  EXPECT_EQ(parse_line_place(place.text())->offset, 4621);
  EXPECT_EQ((LinePlace{0, 0, ""}.text()), "0");  // of a file without a line
  EXPECT_EQ(parse_line_place("0")->offset, 0);
  EXPECT_EQ(parse_line_place("7")->line, 7);
  EXPECT_EQ(parse_line_place("7")->offset, -1);
  for (const char* text : {"", "x", "-1", "7.", "7.5", "7.5.", "7.5.12", "7.-5.12345678",
                           "99999999999999999999", "7 ", "7.5.123456789"}) {
    EXPECT_FALSE(parse_line_place(text).has_value()) << text;
  }
}

TEST(RunStateTest, FollowsFromTheFiles) {
  const auto state = [](const RunTraces& traces) { return state_of(traces).state; };
  RunTraces traces;
  traces.described = true;
  EXPECT_EQ(state(traces), "running");
  traces.age_s = 11;
  EXPECT_EQ(state(traces), "failed");
  traces.locked = true;
  EXPECT_EQ(state(traces), "stale");
  traces.step_ms = 60'000;  // its steps take a minute
  EXPECT_EQ(state(traces), "running");
  traces.locked = false;
  traces.lock_left = true;  // its process was killed
  EXPECT_EQ(state(traces), "failed");
  traces.nan_step = 7;
  EXPECT_EQ(state_of(traces).reason, "NaN or Inf at step 7");
  traces.steps_in_summary = 30;
  traces.planned_steps = 200;
  EXPECT_EQ(state(traces), "finished");
  EXPECT_EQ(state_of(traces).reason, "stopped after 30 of 200 steps");
  RunTraces foreign;  // only metrics, of whoever
  foreign.age_s = 1000;
  EXPECT_EQ(state(foreign), "stale");
}

}  // namespace
}  // namespace tessera
