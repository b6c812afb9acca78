#include "bench/bench_serve_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/message_of.h"

namespace tessera {
namespace {

std::string event(const std::string& json) { return "data: " + json + "\n\n"; }
std::string text_event(const std::string& text) {
  return event(R"({"choices":[{"index":0,"text":")" + text + R"(","finish_reason":null}]})");
}

AnswerSample read(const std::vector<std::pair<double, std::string>>& parts) {
  AnswerSample sample;
  AnswerReader reader(sample);
  for (const auto& [at, bytes] : parts) static_cast<void>(reader.feed(bytes, at));
  reader.end(parts.back().first);
  return sample;
}

const std::string kEnd = event(R"({"choices":[{"text":"","finish_reason":"length"}]})");
const std::string kUsage =
    event(R"({"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,)"
          R"("prompt_tokens_details":{"cached_tokens":4}}})");
const std::string kDone = "data: [DONE]\n\n";

TEST(AnswerReaderTest, TakesTimesFromTextsAndCountsFromTheServer) {
  const AnswerSample sample = read({{1, event(R"({"choices":[{"delta":{"role":"assistant"}}]})")},
                                    {2, text_event("a")},
                                    {2.5, text_event("")},
                                    {3, text_event("b")},
                                    {6, text_event("c") + kEnd},
                                    {7, kUsage + kDone}});
  EXPECT_EQ(sample.failure, "");
  EXPECT_EQ(sample.texts, 3);
  EXPECT_EQ(sample.first_s, 2);
  EXPECT_EQ(sample.last_s, 6);
  EXPECT_EQ(sample.ended_s, 7);
  EXPECT_EQ(sample.gaps_s, (std::vector<float>{1, 3}));
  EXPECT_EQ(sample.prompt_tokens, 9);
  EXPECT_EQ(sample.answer_tokens, 5);
  EXPECT_EQ(sample.cached_tokens, 4);
  EXPECT_DOUBLE_EQ(sample.tpot_s(), 1) << "four tokens in four seconds";
}

TEST(AnswerReaderTest, ServersThatDoNotCountAreCounted) {
  const AnswerSample chat = read({{1, event(R"({"choices":[{"delta":{"content":"x"}}]})")},
                                  {2, event(R"({"choices":[{"delta":{"content":"y"}}]})")},
                                  {3, kDone}});
  EXPECT_EQ(chat.failure, "");
  EXPECT_EQ(chat.answer_tokens, 2);
  const AnswerSample ids = read({{1, event(R"({"choices":[{"text":"","token_ids":[5,6]}]})")},
                                 {2, event(R"({"choices":[{"text":"z","token_ids":[7]}]})")},
                                 {3, kDone}});
  EXPECT_EQ(ids.first_s, 1);
  EXPECT_EQ(ids.texts, 2);
  EXPECT_EQ(ids.answer_tokens, 3);
  const AnswerSample silent = read({{1, kEnd}, {2, kDone}});
  EXPECT_EQ(silent.failure, "");
  EXPECT_EQ(silent.first_s, 2);
  EXPECT_EQ(silent.tpot_s(), 0);
}

TEST(AnswerReaderTest, NamesWhatIsWrong) {
  EXPECT_EQ(read({{1, text_event("a")}}).failure, "stream broke off");
  EXPECT_EQ(read({{1, kEnd + "data: {"}}).failure, "stream broke off");
  const AnswerSample error = read(
      {{1, text_event("a")}, {2, event(R"({"error":{"message":"out of pages"}})")}, {3, kDone}});
  EXPECT_EQ(error.failure, "error in the stream");
  EXPECT_EQ(error.detail, "out of pages");
  EXPECT_EQ(read({{1, event("{nonsense")}}).failure, "no JSON in an event");
  EXPECT_EQ(read({{1, "data: " + std::string(2 << 20, 'x')}}).failure, "event too large");
  // Shapes that are none of the API's are no texts, and no crash.
  for (const char* odd : {"[]", "7", R"({"choices":7})", R"({"choices":[7]})", R"({"usage":[]})",
                          R"({"choices":[{"text":7}]})", R"({"choices":[{"delta":[]}]})"}) {
    EXPECT_EQ(read({{1, event(odd) + kDone}}).texts, 0) << odd;
  }
  EXPECT_EQ(refusal_text(R"({"error":{"message":"queue full"}})"), "queue full");
  EXPECT_EQ(refusal_text(" no json "), "no json");
  EXPECT_EQ(refusal_text(std::string(5'000, 'x')).size(), 200U);
}

TEST(BenchServeReportTest, PercentilesLieBetweenValues) {
  EXPECT_EQ(percentile({}, 50), 0);
  EXPECT_EQ(percentile({7}, 99), 7);
  const std::vector<double> four = {10, 20, 30, 40};
  EXPECT_DOUBLE_EQ(percentile(four, 0), 10);
  EXPECT_DOUBLE_EQ(percentile(four, 50), 25);
  EXPECT_DOUBLE_EQ(percentile(four, 90), 37);  // numpy.percentile([10, 20, 30, 40], 90)
  EXPECT_DOUBLE_EQ(percentile(four, 100), 40);
  const Spread spread = spread_of({4, 1, 3, 2});
  EXPECT_EQ(spread.count, 4);
  EXPECT_DOUBLE_EQ(spread.mean, 2.5);
  EXPECT_DOUBLE_EQ(spread.p50, 2.5);
}

AnswerSample sample_of(double ttft_s, double tpot_s, int64_t tokens) {
  AnswerSample sample;
  sample.asked_s = 1;
  sample.sent_s = 1.002;
  sample.first_s = 1 + ttft_s;
  sample.last_s = sample.ended_s = sample.first_s + tpot_s * static_cast<double>(tokens - 1);
  sample.texts = sample.answer_tokens = tokens;
  sample.prompt_tokens = 10;
  for (int64_t i = 1; i < tokens; ++i) sample.gaps_s.push_back(static_cast<float>(tpot_s));
  return sample;
}

TEST(BenchServeReportTest, FiguresFollowFromTheSamples) {
  ServeReport report;
  report.target = "http://127.0.0.1:1";
  report.load.rate = 2;
  report.seconds = 4;
  report.level = parse_service_level("ttft=150,tpot=20");
  report.samples = {sample_of(0.1, 0.01, 5), sample_of(0.2, 0.01, 5), sample_of(0.1, 0.03, 5)};
  report.samples.emplace_back();
  report.samples.back().failure = "status 429";
  report.samples.back().detail = "queue \x1b[31m full";
  const nlohmann::ordered_json json = serve_json(report);
  EXPECT_EQ(json.at("schema_version"), 1);
  EXPECT_EQ(json.at("kind"), "bench_serve");
  EXPECT_EQ(json.at("requests"), 4);
  EXPECT_EQ(json.at("completed"), 3);
  EXPECT_EQ(json.at("failures").at("status 429"), 1);
  EXPECT_DOUBLE_EQ(json.at("requests_per_s"), 0.75);
  EXPECT_DOUBLE_EQ(json.at("answer_tokens_per_s"), 15.0 / 4);
  EXPECT_EQ(json.at("goodput").at("requests"), 1) << "one is late, one is slow, one failed";
  EXPECT_DOUBLE_EQ(json.at("goodput").at("requests_per_s"), 0.25);
  EXPECT_NEAR(json.at("ttft_ms").at("p50"), 100, 1e-9);
  EXPECT_NEAR(json.at("tpot_ms").at("p99"), 29.6, 1e-6);
  EXPECT_EQ(json.at("itl_ms").at("count"), 12);
  EXPECT_NEAR(json.at("e2e_ms").at("p50"), 220, 1e-6);
  EXPECT_NEAR(json.at("latest_start_ms"), 2, 1e-6);
  const std::string text = serve_text(report);
  EXPECT_NE(text.find("failed    1 x status 429"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(BenchServeReportTest, LimitsAreReadOrRefused) {
  const ServiceLevel level = parse_service_level("tpot=2.5,e2e=1e3");
  EXPECT_EQ(level.tpot_ms, 2.5);
  EXPECT_EQ(level.whole_ms, 1000);
  EXPECT_EQ(level.ttft_ms, 0);
  EXPECT_FALSE(parse_service_level("").is_asked_for());
  for (const char* wrong : {"ttft", "ttft=", "ttft=-1", "ttft=nan", "itl=3", "ttft=1,", "=3"}) {
    EXPECT_NE(testing::message_of([&] { parse_service_level(wrong); }).find("such as ttft=200"),
              std::string::npos)
        << wrong;
  }
}

}  // namespace
}  // namespace tessera
