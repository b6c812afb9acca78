// Every worked number of the lessons, as the calculators give it (tests/lessons/numbers.txt).
#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text/text.h"
#include "cost/explain/topic.h"

namespace tessera {
namespace {

struct Line {
  int number = 0;
  std::string lesson, topic, key;
  GivenTexts given;
  double value = 0, tolerance = 0;
};

double number_of(std::string_view text) {
  double value = std::nan("");
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "ring --bytes 140GB --ranks 32"
void read_command(std::string_view command, Line& line) {
  std::string flag;
  for (const std::string_view word : split(command, ' ')) {
    if (word.empty()) continue;
    if (line.topic.empty()) {
      line.topic = std::string(word);
    } else if (word.starts_with("--")) {
      flag = std::string(word.substr(2));
    } else {
      line.given[flag] = std::string(word);
    }
  }
}

std::vector<Line> read_lines() {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/lessons/numbers.txt");
  std::vector<Line> lines;
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    if (text.empty() || text.front() == '#') continue;
    const std::vector<std::string_view> parts = split(text, '|');
    if (parts.size() != 5)
      ADD_FAILURE() << "line " << number << " has " << parts.size() << " parts";
    Line line;
    line.number = number;
    line.lesson = std::string(trim(parts[0]));
    read_command(trim(parts[1]), line);
    line.key = std::string(trim(parts[2]));
    line.value = number_of(trim(parts[3]));
    line.tolerance = number_of(trim(parts[4]));
    lines.push_back(std::move(line));
  }
  return lines;
}

TEST(LessonsTest, EveryWorkedNumberIsWhatWeSay) {
  std::set<std::string> lessons;
  const std::vector<Line> lines = read_lines();
  EXPECT_GE(lines.size(), 140U);
  for (const Line& line : lines) {
    lessons.insert(line.lesson);
    const Explanation e = explain(find_topic(line.topic), line.given);
    // The last bits of a product of decimal fractions are not the lesson's.
    const double rounding = std::abs(line.value) * 1e-15;
    EXPECT_NEAR(e.value(line.key), line.value, line.tolerance + rounding)
        << "line " << line.number << ": " << line.topic << " " << line.key;
  }
  EXPECT_EQ(lessons, (std::set<std::string>{"s0", "s1", "s2", "s3", "s4", "ours"}));
}

TEST(LessonsTest, TheZeroTableHasEveryStageAndSize) {
  const Explanation e = explain(find_topic("zero"), {{"params", "7B"}});
  ASSERT_EQ(e.tables.size(), 1U);
  const ResultTable& table = e.tables.front();
  ASSERT_EQ(table.rows.size(), 5U);
  const double expected[5][4] = {{112, 112, 112, 112},
                                 {112, 70, 63, 56},
                                 {112, 49, 38.5, 28},
                                 {112, 38.5, 26.25, 14},
                                 {112, 33.25, 20.125, 7}};
  for (size_t row = 0; row < 5; ++row) {
    for (size_t stage = 0; stage < 4; ++stage) {
      EXPECT_DOUBLE_EQ(std::get<Quantity>(table.rows[row][stage + 1]).value,
                       expected[row][stage] * 1e9);
    }
  }
}

TEST(LessonsTest, EveryTopicWorksWithoutFlagsAndWithItsExample) {
  for (const Topic& topic : topics()) {
    const Explanation e = explain(topic, {});
    EXPECT_FALSE(e.results.empty()) << topic.name;
    const std::string text = text_of(e);
    EXPECT_EQ(text.find("nan"), std::string::npos) << text;
    EXPECT_EQ(text.find("inf"), std::string::npos) << text;
    EXPECT_EQ(json_of(e)["topic"], topic.name);
    Line line;
    read_command(std::string(topic.name) + " " + std::string(topic.example), line);
    EXPECT_NO_THROW(explain(topic, line.given)) << topic.name;
  }
}

}  // namespace
}  // namespace tessera
