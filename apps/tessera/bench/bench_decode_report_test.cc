#include "bench/bench_decode_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/testing/message_of.h"
#include "bench/bench_decode.h"
#include "serve/machine/decode_frames.h"
#include "serve/ranks/local_frames.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

RunSpec small_model(bool tied) {
  RunSpec spec;
  spec.model.layers = 2;
  spec.model.hidden = 32;
  spec.model.ffn = 48;
  spec.model.heads = 4;
  spec.model.kv_heads = 2;
  spec.model.vocab = 100;
  spec.model.tied = tied;
  spec.train.threads = 1;
  resolve(spec);
  return spec;
}

serve::ServePlan plan_of(const RunSpec& model, int64_t tp = 1, int64_t pp = 1) {
  serve::ServeOptions options;
  options.tp = tp;
  options.pp = pp;
  options.dtype = DType::kBF16;
  options.threads = 1;
  options.max_context = 64;
  options.max_tokens = 24;
  options.max_sequences = options.max_rows = 4;
  options.num_pages = 16;
  return plan_serving(model, options);
}

TEST(BenchDecodeReportTest, AStepReadsEveryWeightOnceAndAllItsKeysAndValues) {
  // A block has q and o, k and v, three of the MLP, two norms; then come the last norm and the
  // head.
  const int64_t block = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48 + 2 * 32;
  const int64_t weights = 2 * block + 32 + 100 * 32;
  const int64_t of_a_token = 2 * 2 * 16;  // layers, keys and values, columns
  for (const int64_t tp : {1, 2}) {
    const StepBytes tied = step_bytes(plan_of(small_model(true), tp), 3, 40);
    EXPECT_EQ(tied.weights, 2 * weights);
    EXPECT_EQ(tied.cache, 3 * 40 * of_a_token * 2);
  }
  const StepBytes untied = step_bytes(plan_of(small_model(false)), 3, 40);
  EXPECT_EQ(untied.weights, 2 * (weights + 3 * 32)) << "and a row of the embedding for each";
}

TEST(BenchDecodeReportTest, FlopsOfAPromptAreThoseOfItsTokensAndOneHead) {
  const ModelSpec model = small_model(true).model;
  const double block = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48;
  EXPECT_DOUBLE_EQ(prompt_flops(model, 1), 2 * 2 * block + 2 * 3200 + 4 * 2 * 32);
  EXPECT_DOUBLE_EQ(prompt_flops(model, 10), 10 * 2 * 2 * block + 2 * 3200 + 4 * 2 * 32 * 55);
}

TEST(BenchDecodeReportTest, SharesAreOfTheProbeOfTheSameRound) {
  const serve::ServePlan plan = plan_of(small_model(true));
  DecodeReport report{.plan = plan, .model = "small", .context = 40, .decode = {}, .prefill = {}};
  report.processes = true;
  const auto bytes = StepBytes{900, 100};
  report.decode.push_back({2, bytes, {{0.5, 1, 2}, {4000, 2000, 1000}}});
  report.prompt = 10;
  report.prefill = {{4, 2}, {1e9, 2e9}};
  const nlohmann::ordered_json json = decode_json(report);
  EXPECT_EQ(json.at("kind"), "bench_decode");
  EXPECT_DOUBLE_EQ(json.at("decode")[0].at("step_ms"), 1000);
  EXPECT_DOUBLE_EQ(json.at("decode")[0].at("tokens_per_s"), 2);
  EXPECT_DOUBLE_EQ(json.at("decode")[0].at("share_of_probe"), 0.5) << "in every round";
  EXPECT_EQ(json.at("prefill").at("tokens"), 10);
  EXPECT_TRUE(json.at("processes").get<bool>());
  EXPECT_NE(decode_text(report).find("pp=1 as processes"), std::string::npos);
  EXPECT_NE(decode_text(report).find("0.50"), std::string::npos);
}

TEST(BenchDecodeFramesTest, RunOnEveryMesh) {
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
    serve::ServePlan plan = plan_of(small_model(true), tp, pp);
    const TensorSource weights = repeated_weights(plan.spec.model, 1);
    serve::LocalFrameRunner runner(std::move(plan), weights);
    serve::DecodeFrames frames(runner);
    auto decode = frames.decode(3, 40);
    EXPECT_EQ(std::ssize(decode), pp) << "every stage has work";
    size_t tokens = 0;
    for (const serve::Frame& frame : decode) tokens += frame.tokens.size();
    EXPECT_EQ(tokens, 3U);
    EXPECT_GT(frames.seconds(decode, 3), 0);
    auto prompt = frames.prompt(50);
    EXPECT_EQ(prompt.size(), 3U) << "chunks of 24 tokens";
    EXPECT_EQ(prompt.back().rows.size(), 1U);
    EXPECT_TRUE(prompt.front().rows.empty());
    EXPECT_GT(frames.seconds(prompt, 2), 0);
  }
}

TEST(BenchDecodeTest, MeasuresAModelThatNobodyTrained) {
  BenchDecodeOptions options;
  options.shape = "layers=2,hidden=32,ffn=48,heads=4,vocab=100";
  options.batches = "1,3";
  options.context = options.prompt = 24;
  options.rounds = 1;
  options.seconds = 0;
  options.json = true;
  std::ostringstream out, err;
  Console console{out, err};
  EXPECT_EQ(run_bench_decode(options, console), 0);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json.at("decode").size(), 2U);
  EXPECT_GT(json.at("prefill").at("tokens_per_s"), 0);
}

TEST(BenchDecodeTest, RefusalsNameTheFlag) {
  const auto refusal = [](const auto& change) {
    BenchDecodeOptions options;
    options.random = "gpt2";
    change(options);
    std::ostringstream out, err;
    Console console{out, err};
    return testing::message_of([&] { run_bench_decode(options, console); });
  };
  using Options = BenchDecodeOptions;
  EXPECT_NE(refusal([](Options& o) { o.random = ""; }).find("--random"), std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.model = "somewhere"; }).find("leave one"),
            std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.batches = "1,x"; }).find("--batch has 'x'"),
            std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.batches = "0"; }).find("--batch"), std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.shape = "hidden"; }).find("--shape"), std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.mesh = "dp=2"; }).find("tp, pp and ep"), std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.processes = true; }).find("--mesh tp=2"), std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.random = "gpt3000"; }).find("gpt3000"), std::string::npos);
}

}  // namespace
}  // namespace tessera
