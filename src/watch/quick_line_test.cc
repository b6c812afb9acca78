#include "watch/quick_line.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

namespace tessera {
namespace {

const std::string kLine =
    R"({"step":12,"time":1794857185.1471634,"loss":"NaN","lr":1.2e-3,"grad_norm":-0.5,"tokens":12288,)"
    R"("exposed_ms":{"dp all_reduce":0.0,"tp":3.25E+1},"memory_bytes":[1,2,[3,"x",null]],"ok":true})";

TEST(QuickLineTest, ReadsALineOfARun) {
  const auto line = quick_metrics_line(kLine);
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->step, 12);
  EXPECT_EQ(line->event, "");
  EXPECT_EQ(*line->find("time"), 1794857185.1471634);
  EXPECT_TRUE(std::isnan(*line->find("loss")));
  EXPECT_EQ(*line->find("exposed_ms.tp"), 32.5);
  EXPECT_EQ(line->find("memory_bytes"), nullptr);
  EXPECT_EQ(quick_metrics_line(R"( {"event":"nan", "step" : 3} )")->event, "nan");
}

TEST(QuickLineTest, LeavesWhatIsNotPlain) {
  for (const char* line : {"",
                           "{}",
                           "[]",
                           "{\"step\":1",
                           "{\"step\":1}x",
                           "{\"step\":1,}",
                           "{\"step\":01}",
                           "{\"step\":1.0}",
                           "{\"step\":-1}",
                           "{\"step\":1e3}",
                           "{\"step\":\"1\"}",
                           "{\"loss\":1}",
                           "{\"step\":1,\"step\":2}",
                           "{\"step\":1,\"a\":.5}",
                           "{\"step\":1,\"a\":5.}",
                           "{\"step\":1,\"a\":+5}",
                           "{\"step\":1,\"a\":-inf}",
                           "{\"step\":1,\"a\":nan}",
                           "{\"step\":1,\"a\":1e}",
                           "{\"step\":1,\"a\":1e999}",
                           "{\"step\":1,\"a\\u0062\":1}",
                           "{\"step\":1,\"\xc3\xa9\":1}",
                           "{\"step\":1,\"a\":{\"b\":{\"c\":1}}}",
                           "{\"step\":1,\"a\":[1,]}",
                           "{\"step\":1,\"a\":tru}",
                           "{\"step\":1000000000000001}"}) {
    EXPECT_FALSE(quick_metrics_line(line).has_value()) << line;
  }
}

// Names may have dots of their own.
nlohmann::json member(const nlohmann::json& json, const std::string& name) {
  if (json.contains(name)) return json.at(name);
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    const std::string outer = name.substr(0, dot), inner = name.substr(dot + 1);
    if (json.contains(outer) && json.at(outer).contains(inner)) return json.at(outer).at(inner);
  }
  return {};
}

// What it reads is JSON, and the numbers are those of the JSON.
TEST(QuickLineTest, AgreesWithTheParserOnDamagedLines) {
  std::mt19937 dice(7);
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = kLine;
    for (size_t i = dice() % 4; i > 0; --i) {
      const size_t at = dice() % text.size();
      const std::string_view letters = "0123456789.eE+-\"{}[]:,ntfalse \\";
      switch (dice() % 3) {
        case 0:
          text[at] = letters[dice() % letters.size()];
          break;
        case 1:
          text.erase(at, 1);
          break;
        default:
          text.insert(at, 1, letters[dice() % letters.size()]);
      }
    }
    const auto line = quick_metrics_line(text);
    if (!line.has_value()) continue;
    ++read;
    const auto json = nlohmann::json::parse(text, nullptr, false);
    ASSERT_FALSE(json.is_discarded()) << text;
    EXPECT_EQ(line->step, json.at("step").get<int64_t>()) << text;
    for (const auto& [name, value] : line->values) {
      const nlohmann::json there = member(json, name);
      if (std::isfinite(value)) {
        EXPECT_EQ(there.get<double>(), value) << text;
      } else {
        EXPECT_TRUE(there.is_string()) << text;
      }
    }
  }
  EXPECT_GT(read, 5'000);
}

}  // namespace
}  // namespace tessera
