// Frames on ranks as threads: texts that other programs have continued, pages, copies, failures,
// and that what was planned is what was taken and sent.
#include "serve/ranks/local_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "serve/testing/text_feeder.h"

namespace tessera::serve {
namespace {

using testing::FeedOptions;
using testing::Rows;
using testing::ServedModel;
using testing::Text;
using Pages = std::vector<int32_t>;

ServedModel small_model() {
  ModelSpec model;
  model.layers = 2;
  model.hidden = 32;
  model.ffn = 64;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 8;
  model.vocab = 60;
  return testing::random_model(model, "small");
}

Text counted_text(int64_t length, int64_t vocab) {
  Text text;
  for (int64_t t = 0; t < length; ++t) text.push_back(static_cast<int32_t>(t * 7 % vocab));
  return text;
}

int64_t one_at_a_time(int64_t) { return 1; }

// A text of one sequence, on its own pages.
Frame frame_of(const Text& tokens, int32_t cached, std::vector<int32_t> pages) {
  Frame frame;
  frame.number = 1;
  frame.tokens = tokens;
  frame.sequences = {{static_cast<int32_t>(tokens.size()), cached, std::move(pages)}};
  auto greedy = std::make_shared<Sampling>();
  greedy->temperature = 0;
  frame.rows.push_back({static_cast<int32_t>(tokens.size()) - 1, {.how = std::move(greedy)}});
  return frame;
}

// The token that follows `prompt` by the recorded logits of the folder, which has texts that begin
// with it; -1: it has none.
int32_t recorded_next(const std::string& folder, const Text& prompt) {
  if (!std::filesystem::exists(folder + "/golden.safetensors")) return -1;
  const SafetensorsFile golden = SafetensorsFile::open(folder + "/golden.safetensors");
  const std::vector<int64_t>& shape = golden.at("logits").shape;
  Text begin(prompt.size());
  std::vector<int64_t> ids(prompt.size());
  golden.read_range("input_ids", 0, std::span<int64_t>(ids));
  for (size_t i = 0; i < ids.size(); ++i) begin[i] = static_cast<int32_t>(ids[i]);
  if (begin != prompt) return -1;
  std::vector<double> row(static_cast<size_t>(shape.back()));
  golden.read_range("logits", (std::ssize(prompt) - 1) * shape.back(), std::span<double>(row));
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

TEST(LocalFrames, ContinueTextsAsTransformersDoes) {
  int found = 0;
  for (const std::string& folder : testing::greedy_folders()) {
    SCOPED_TRACE(folder);
    std::ifstream in(folder + "/greedy.json");
    const nlohmann::json golden = nlohmann::json::parse(in);
    const auto prompt = golden.at("prompt").get<Text>();
    const auto expected = golden.at("greedy").get<Text>();
    // One that was recorded with other weights than the folder's says nothing of them.
    const int32_t next_recorded = recorded_next(folder, prompt);
    if (next_recorded != -1 && next_recorded != expected.at(prompt.size())) continue;
    ++found;
    const std::unique_ptr<LocalFrameRunner> runner =
        testing::test_runner(testing::folder_model(folder), {});
    Text text = prompt;
    Text next = prompt;  // what the cache does not have yet
    while (text.size() < expected.size()) {
      const auto cached = static_cast<int32_t>(text.size() - next.size());
      std::vector<int32_t> pages;
      for (size_t p = 0; p * 16 < text.size(); ++p) pages.push_back(static_cast<int32_t>(5 + p));
      runner->start(frame_of(next, cached, pages));
      next = {runner->finish().tokens.at(0).token};
      text.push_back(next.front());
    }
    EXPECT_EQ(text, expected);
  }
  EXPECT_GT(found, 4) << "of tests/data/greedy";
}

TEST(LocalFrames, AWrongPageIsSeen) {
  const ServedModel model = small_model();
  const std::vector<Text> texts = {counted_text(40, 60), counted_text(30, 59)};
  const std::unique_ptr<LocalFrameRunner> runner = testing::test_runner(model, {});
  testing::TextFeeder feeder(*runner, 1);
  const std::vector<Rows> right = feeder.feed(texts, one_at_a_time);
  EXPECT_LE(testing::difference(testing::reference_logits(model, texts), right), 1e-12);
  feeder.on_frame = [&](Frame& frame) {
    if (feeder.frames() % 100 == 77) {
      int32_t& page = frame.sequences.front().pages.front();
      page = (page + 1) % static_cast<int32_t>(runner->shape().num_pages);
    }
  };
  double largest = 0;
  for (int i = 0; i < 3; ++i) {
    largest = std::max(largest, testing::difference(right, feeder.feed(texts, one_at_a_time)));
  }
  EXPECT_GT(largest, 1e-6);
}

TEST(LocalFrames, PagesAreCopiedBeforeAFrameIsComputed) {
  const ServedModel model = small_model();
  for (const char* mesh : {"one rank", "tp = 2", "pp = 2"}) {
    SCOPED_TRACE(mesh);
    FeedOptions options;
    options.tp = mesh == std::string("tp = 2") ? 2 : 1;
    options.pp = mesh == std::string("pp = 2") ? 2 : 1;
    const std::unique_ptr<LocalFrameRunner> runner = testing::test_runner(model, options);
    const Text text = counted_text(20, 60);
    const auto run = [&](const Frame& frame) {
      runner->start(frame);
      static_cast<void>(runner->finish());
      return runner->logits();
    };
    const Rows whole = run(frame_of(text, 0, {3, 4}));
    static_cast<void>(run(frame_of(Text(text.begin(), text.begin() + 19), 0, {7, 8})));
    Frame last = frame_of({text.back()}, 19, {3, 9});
    last.copies = {{7, 3}, {8, 9}};
    EXPECT_EQ(run(last), whole);
    Frame without = last;
    without.copies = {{7, 3}, {1, 9}};
    EXPECT_NE(run(without), whole);
  }
}

TEST(LocalFrames, TakeAndSendWhatWasPlanned) {
  const ServedModel model = small_model();
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {4, 1}, {1, 2}, {2, 2}}) {
    SCOPED_TRACE(fmt::format("tp={} pp={}", tp, pp));
    FeedOptions options;
    options.tp = tp;
    options.pp = pp;
    options.dtype = DType::kBF16;
    const std::unique_ptr<LocalFrameRunner> runner = testing::test_runner(model, options);
    const ServePlan& plan = runner->plan();
    std::vector<std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>>> planned(
        static_cast<size_t>(plan.world()));
    for (const int64_t tokens : {1, 8, 30, 1, 17}) {
      const size_t bucket = plan.bucket_of(tokens, 1, 1);
      runner->start(frame_of(counted_text(tokens, 60), 0, tokens > 16 ? Pages{1, 2} : Pages{1}));
      (void)runner->finish();
      for (int rank = 0; rank < plan.world(); ++rank) {
        const auto r = static_cast<size_t>(rank);
        const Program& program = plan.buckets[bucket].programs[r];
        EXPECT_EQ(runner->rank(rank).executed_digest(), digest_of(program));
        for (const Traffic& one : traffic_of(program)) {
          auto& [calls, bytes] = planned[r][{one.group, one.op}];
          calls += one.calls;
          bytes += one.bytes_sent;
        }
      }
    }
    for (int rank = 0; rank < plan.world(); ++rank) {
      const auto r = static_cast<size_t>(rank);
      EXPECT_EQ(runner->rank(rank).bytes(), plan.ranks[r]);
      decltype(planned)::value_type measured;
      for (const Traffic& one : runner->rank(rank).traffic()) {
        measured[{one.group, one.op}] = {one.calls, one.bytes_sent};
      }
      EXPECT_EQ(measured, planned[r]) << "rank " << rank;
      EXPECT_EQ(measured.empty(), plan.world() == 1);
    }
  }
}

// While one stage computes, the next one waits: that is none of its work.
TEST(LocalFrames, AStagesTimeIsThatOfItsOwnWork) {
  FeedOptions options;
  options.pp = 2;
  const std::unique_ptr<LocalFrameRunner> runner = testing::test_runner(small_model(), options);
  runner->keep_times();
  for (uint64_t number = 1; number <= 5; ++number) {
    Frame frame = frame_of(counted_text(30, 60), 0, {1, 2});
    frame.number = number;
    runner->start(frame);
    (void)runner->finish();
  }
  std::map<uint64_t, std::map<int, FrameTimes>> frames;
  for (const RankFrameTimes& one : runner->take_times()) {
    frames[one.times.number][one.rank] = one.times;
  }
  ASSERT_EQ(frames.size(), 5U);
  for (auto& [number, ranks] : frames) {
    ASSERT_EQ(ranks.size(), 2U);
    for (const auto& [rank, times] : ranks) {
      EXPECT_LE(times.begin_ns, times.input_ns);
      EXPECT_LT(times.input_ns, times.output_ns);
      EXPECT_LE(times.output_ns, times.end_ns);
    }
    // Nothing can be computed before the stage before has begun to; both began to wait together.
    EXPECT_GT(ranks[1].input_ns, ranks[0].input_ns) << "frame " << number;
    EXPECT_GT(ranks[1].input_ns, ranks[1].begin_ns) << "frame " << number;
  }
  EXPECT_TRUE(runner->take_times().empty());
}

// For whoever wants to know whether ranks hang in a frame that takes long.
TEST(LocalFrames, ShowProgressInsideOfAFrame) {
  for (const int64_t pp : {1, 2}) {
    FeedOptions options;
    options.pp = pp;
    const std::unique_ptr<LocalFrameRunner> runner = testing::test_runner(small_model(), options);
    const uint64_t before = runner->progress();
    runner->start(frame_of(counted_text(30, 60), 0, {1, 2}));
    (void)runner->finish();
    EXPECT_GT(runner->progress(), before + 10) << "a step for every instruction";
  }
}

}  // namespace
}  // namespace tessera::serve
