#include "api/show/serving.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tessera {
namespace {

using nlohmann::json;

TEST(ShowServing, SaysWhichStageComputesWhatAndWhen) {
  const ShowTopic topic = serving_topic();
  const json answer = show_json(
      topic, {{"stages", 3}, {"requests", 1}, {"prompt", 300}, {"answer", 2}, {"chunk", 64}}, {});
  EXPECT_EQ(answer.at("kind"), "serving");
  const json& frames = answer.at("frames");
  ASSERT_EQ(frames.size(), 4U);
  EXPECT_EQ(frames[1].at("parts"), json::parse("[[0, 100, 100, 0]]"));
  EXPECT_EQ(frames[1].at("stages"), json::parse("[[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]"));
  EXPECT_EQ(frames[3].at("parts"), json::parse("[[0, 300, 1, 1]]"));
  EXPECT_EQ(answer.at("requests")[0].at("first_token"), 5.0);
  EXPECT_EQ(answer.at("makespan"), 8.0);
  EXPECT_EQ(answer.at("busy"), json::parse("[4.0, 4.0, 4.0]"));
  const std::string text = show_text(topic, {{"requests", 2}, {"prompt", "1k"}}, {});
  EXPECT_NE(text.find("prompt 0: 0-255"), std::string::npos) << text;
  EXPECT_NE(text.find("next token of 0"), std::string::npos) << text;
}

TEST(ShowServing, PreemptsWhereAnswersAreLongerThanExpected) {
  json request = {{"stages", 2}, {"requests", 4}, {"prompt", 64}, {"answer", 64}, {"pages", 20}};
  const json known = show_json(serving_topic(), request, {});
  EXPECT_EQ(known.at("preemptions"), 0);
  request["expected_answer"] = 1;
  const json longer = show_json(serving_topic(), request, {});
  EXPECT_GT(longer.at("preemptions"), 0);
  EXPECT_GT(longer.at("recomputed_tokens"), 0);
  EXPECT_NE(show_text(serving_topic(), request, {}).find("preempted"), std::string::npos);
}

TEST(ShowServing, RefusesWhatIsTooLong) {
  const auto refusal = [](const json& request) -> std::string {
    try {
      static_cast<void>(show_json(serving_topic(), request, {}));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({{"prompt", "2M"}}),
            "serving: prompt is \"2M\": expected a whole number from 1 to 262144 for 4 requests, "
            "such as 1024 or 1k");
  EXPECT_NE(refusal({{"pages", 8}}).find("need 65 pages of the cache; it has 8"),
            std::string::npos);
  EXPECT_NE(refusal({{"token_budget", 1}, {"prompt", "8k"}}).find("more than 4000 frames"),
            std::string::npos);
  EXPECT_NE(refusal({{"frame_time", 0}}).find("give one of them a time"), std::string::npos);
}

}  // namespace
}  // namespace tessera
