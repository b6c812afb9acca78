// What `tessera plan --serve` says of a folder is what ranks that serve it take and send.
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

void expect_run_as_planned(const std::string& folder, ServeOptions options) {
  options.model = folder;
  const RunSpec spec = fill_options(options);
  const NamedModel named = find_named_model(folder, read_file);
  EXPECT_EQ(options.max_context, named.made_for);
  const ServeEstimate planned = estimate_serving(named.spec, options);
  ServePlan plan = plan_serving(spec, options);
  ASSERT_EQ(planned.shape.num_pages, plan.shape.num_pages);
  LocalFrameRunner runner(std::move(plan));
  std::vector<Sent> sent(static_cast<size_t>(planned.world()));
  uint64_t number = 0;
  for (const int32_t tokens : {1, 5, 24, 1}) {
    Frame frame = frame_of(tokens, options.page_size);
    frame.number = ++number;
    runner.start(frame);
    static_cast<void>(runner.finish());
    const size_t bucket = runner.plan().bucket_of(tokens, 1, 1);
    for (int rank = 0; rank < planned.world(); ++rank) {
      add(sent[static_cast<size_t>(rank)], planned.traffic(bucket, rank));
    }
  }
  for (int rank = 0; rank < planned.world(); ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    EXPECT_EQ(runner.rank(rank).bytes(), planned.rank_bytes(rank));
    Sent measured;
    add(measured, runner.rank(rank).traffic());
    EXPECT_EQ(measured, sent[static_cast<size_t>(rank)]);
  }
}

TEST(PlannedRun, TakesAndSendsWhatThePlanOfItsFolderSays) {
  const std::string data = std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf/";
  for (const char* name : {"llama-gqa", "gpt2", "mixtral", "qwen3"}) {
    for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
      SCOPED_TRACE(fmt::format("{} tp={} pp={}", name, tp, pp));
      ServeOptions options;
      options.tp = tp;
      options.pp = pp;
      options.dtype = DType::kBF16;
      options.threads = 1;
      options.max_tokens = 24;
      options.memory_bytes = int64_t{6} << 20;
      expect_run_as_planned(data + name, options);
    }
  }
}

}  // namespace
}  // namespace tessera::serve
