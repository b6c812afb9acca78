// What `tessera plan --serve` says of a folder is what ranks that serve it take and send.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "base/error.h"
#include "serve/plan/named_model.h"
#include "serve/plan/serve_estimate.h"
#include "serve/ranks/host_options.h"
#include "serve/ranks/local_frames.h"

namespace tessera::serve {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  require_config(in.good(), "cannot open '{}'", path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Frame frame_of(int32_t tokens, int64_t page_size) {
  Frame frame;
  for (int32_t t = 0; t < tokens; ++t) frame.tokens.push_back(t % 7);
  FrameSequence sequence;
  sequence.num_tokens = tokens;
  for (int64_t at = 0; at < tokens; at += page_size) {
    sequence.pages.push_back(static_cast<int32_t>(at / page_size));
  }
  frame.sequences = {sequence};
  auto greedy = std::make_shared<Sampling>();
  greedy->temperature = 0;
  frame.rows.push_back({tokens - 1, {.how = std::move(greedy)}});
  return frame;
}

using Sent = std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>>;

void add(Sent& sent, const std::vector<Traffic>& traffic) {
  for (const Traffic& one : traffic) {
    auto& [calls, bytes] = sent[{one.group, one.op}];
    calls += one.calls;
    bytes += one.bytes_sent;
  }
}

// What ranks of `plan` take and send, in these frames one after the other, that is not what
// `planned` says of it: empty where all is right.
std::vector<std::string> differences(const ServeEstimate& planned, ServePlan plan) {
  std::vector<std::string> found;
  LocalFrameRunner runner(std::move(plan));
  const auto ranks = static_cast<size_t>(planned.world());
  std::vector<Sent> planned_sum(ranks), before(ranks);
  uint64_t number = 0;
  for (const int32_t tokens : {1, 5, 24, 1, 3, 24}) {
    Frame frame = frame_of(tokens, planned.options.page_size);
    frame.number = ++number;
    runner.start(frame);
    static_cast<void>(runner.finish());
    const size_t bucket = runner.plan().bucket_of(tokens, 1, 1);
    for (size_t rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<int>(rank);
      Sent expected = before[rank], sent;
      add(expected, planned.traffic(bucket, r));
      add(sent, runner.rank(r).traffic());
      if (sent != expected) found.push_back(fmt::format("frame {}: rank {} sent", number, r));
      before[rank] = std::move(sent);
      add(planned_sum[rank], planned.traffic(bucket, r));
    }
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<int>(rank);
    if (before[rank] != planned_sum[rank]) found.push_back(fmt::format("rank {} sent in all", r));
    if (!(runner.rank(r).bytes() == planned.rank_bytes(r))) {
      found.push_back(fmt::format("rank {} took", r));
    }
  }
  return found;
}

struct Planned {
  ServeEstimate estimate;
  ServePlan plan;
};

Planned plan_twice(const std::string& folder, ServeOptions options) {
  options.model = folder;
  const RunSpec spec = fill_options(options);
  const NamedModel named = find_named_model(folder, read_file);
  EXPECT_EQ(options.max_context, named.made_for);
  Planned planned{estimate_serving(named.spec, options), plan_serving(spec, options)};
  EXPECT_EQ(planned.estimate.shape.num_pages, planned.plan.shape.num_pages);
  return planned;
}

ServeOptions options_of(int64_t tp, int64_t pp, DType dtype) {
  ServeOptions options;
  options.tp = tp;
  options.pp = pp;
  options.dtype = dtype;
  options.threads = 1;
  options.max_tokens = 24;
  options.memory_bytes = int64_t{12} << 20;
  return options;
}

const std::string kModels = std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf/";

class PlannedRun : public ::testing::TestWithParam<DType> {};

TEST_P(PlannedRun, TakesAndSendsInEveryFrameWhatThePlanOfItsFolderSays) {
  for (const char* name : {"llama-gqa", "gpt2", "mixtral", "qwen3"}) {
    for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
      SCOPED_TRACE(fmt::format("{} tp={} pp={}", name, tp, pp));
      Planned planned = plan_twice(kModels + name, options_of(tp, pp, GetParam()));
      EXPECT_EQ(differences(planned.estimate, std::move(planned.plan)), std::vector<std::string>());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PlannedRun,
                         ::testing::Values(DType::kBF16, DType::kF32, DType::kF64),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST(PlannedRunTest, OneWrongNumberIsNoticed) {
  const ServeOptions options = options_of(2, 2, DType::kBF16);
  const auto say = [](const std::vector<std::string>& found) {
    return fmt::format("{}", fmt::join(found, ", "));
  };
  Planned memory = plan_twice(kModels + "llama-gqa", options);
  memory.estimate.stages[1].bytes.arenas[static_cast<size_t>(ArenaKind::kCache)] += 1;
  EXPECT_EQ(say(differences(memory.estimate, std::move(memory.plan))), "rank 2 took, rank 3 took");
  // The smallest and the largest frame come twice each: changed for each other, the sum is right.
  Planned calls = plan_twice(kModels + "llama-gqa", options);
  auto& frames = calls.estimate.stages[0].frames;
  std::swap(frames.front().calls, frames.back().calls);
  const std::string found = say(differences(calls.estimate, std::move(calls.plan)));
  for (const char* frame :
       {"frame 1: rank 0 sent", "frame 3: rank 1 sent", "frame 6: rank 0 sent"}) {
    EXPECT_NE(found.find(frame), std::string::npos) << found;
  }
  EXPECT_EQ(found.find("frame 2:"), std::string::npos) << found;
  EXPECT_EQ(found.find("in all"), std::string::npos) << found;
}

}  // namespace
}  // namespace tessera::serve
