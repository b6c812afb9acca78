#include "bench/bench_serve_requests.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace tessera {
namespace {

using nlohmann::json;

TEST(LoadPlanTest, TheSameSeedIsTheSameLoad) {
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}}) {
    LoadPlan a({.seed = seed, .spread = 0.5, .rate = 3});
    LoadPlan b({.seed = seed, .spread = 0.5, .rate = 3});
    LoadPlan other({.seed = seed + 7, .spread = 0.5, .rate = 3});
    int same = 0;
    for (int64_t i = 0; i < 50; ++i) {
      const PlannedRequest x = a.next(), y = b.next(), z = other.next();
      EXPECT_EQ(x.at_s, y.at_s);
      EXPECT_EQ(a.body(i, x), b.body(i, y));
      same += x.prompt_tokens == z.prompt_tokens ? 1 : 0;
    }
    EXPECT_LT(same, 10);
  }
}

TEST(LoadPlanTest, ArrivalsArePoissonOfTheRate) {
  LoadPlan plan({.rate = 8});
  constexpr int kCount = 20'000;
  double last = 0, sum = 0, squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double at = plan.next().at_s;
    EXPECT_GE(at, last);
    sum += at - last;
    squares += (at - last) * (at - last);
    last = at;
  }
  const double mean = sum / kCount;
  // The gaps of a Poisson process deviate by as much as they are long.
  EXPECT_NEAR(mean, 1.0 / 8, 5.0 / 8 / std::sqrt(kCount));
  EXPECT_NEAR(std::sqrt(squares / kCount - mean * mean) / mean, 1, 0.05);
}

TEST(LoadPlanTest, LengthsLieWithinTheirSpread) {
  LoadPlan plan({.prompt_tokens = 100, .answer_tokens = 10, .spread = 0.3});
  std::set<int64_t> prompts, answers;
  for (int i = 0; i < 2'000; ++i) {
    const PlannedRequest request = plan.next();
    EXPECT_EQ(request.at_s, 0);
    prompts.insert(request.prompt_tokens);
    answers.insert(request.answer_tokens);
  }
  EXPECT_EQ(*prompts.begin(), 70);
  EXPECT_EQ(*prompts.rbegin(), 130);
  EXPECT_EQ(answers, (std::set<int64_t>{7, 8, 9, 10, 11, 12, 13}));
  LoadPlan even({.prompt_tokens = 3, .answer_tokens = 1});
  const PlannedRequest request = even.next();
  EXPECT_EQ(request.prompt_tokens, 3);
  EXPECT_EQ(request.answer_tokens, 1);
}

TEST(LoadPlanTest, PromptsShareTheirBeginningAndNoMore) {
  LoadPlan plan({.prompt_tokens = 200, .shared_prefix = 0.25, .vocab = 50'000, .model = "m"});
  const PlannedRequest first = plan.next(), second = plan.next();
  const json a = json::parse(plan.body(0, first)), b = json::parse(plan.body(1, second));
  EXPECT_EQ(a.at("model"), "m");
  ASSERT_EQ(a.at("prompt").size(), 200U);
  size_t shared = 0;
  while (a.at("prompt")[shared] == b.at("prompt")[shared]) ++shared;
  EXPECT_EQ(shared, 50U);
  for (const json& id : a.at("prompt")) EXPECT_LT(id.get<int64_t>(), 50'000);
  EXPECT_EQ(a.at("max_tokens"), 256);
  EXPECT_EQ(a.at("stream"), true);
  EXPECT_EQ(a.at("ignore_eos"), true);
  EXPECT_EQ(a.at("stream_options").at("include_usage"), true);
}

TEST(LoadPlanTest, WordsAreAskedForAsTextOrAsChat) {
  LoadPlan text({.prompt_tokens = 5, .text = true, .ignore_end = false});
  EXPECT_EQ(text.path(), "/v1/completions");
  const json completion = json::parse(text.body(0, text.next()));
  const auto prompt = completion.at("prompt").get<std::string>();
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), ' '), 4);
  EXPECT_FALSE(completion.contains("ignore_eos"));
  LoadPlan chat({.prompt_tokens = 5, .chat = true});
  EXPECT_EQ(chat.path(), "/v1/chat/completions");
  const json asked = json::parse(chat.body(0, chat.next()));
  EXPECT_EQ(asked.at("messages")[0].at("content"), prompt);
}

}  // namespace
}  // namespace tessera
