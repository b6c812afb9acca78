#include "serve/ranks/frame_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/testing/toy_ranks.h"

namespace tessera::serve {
namespace {

using namespace tessera::serve::testing;
using nlohmann::json;

TEST(FrameTraceTest, HasASliceForEveryFrameOnEveryRank) {
  const ToyMesh mesh{1, 2};
  ProcessRunnerOptions options = toy_options(mesh);
  options.task.times = true;
  const auto trace = std::make_shared<FrameTrace>(mesh.ranks());
  uint64_t number = 1;
  {
    TracingFrameRunner runner(std::make_unique<ProcessFrameRunner>(options), trace);
    const std::vector<int32_t> text(20, 3);
    (void)generate_alone(runner, text, 2, 6, number);
  }
  const json read = json::parse(trace->json());
  std::map<int, std::vector<json>> slices;
  for (const json& event : read["traceEvents"]) {
    if (event["ph"] == "X") slices[event["pid"]].push_back(event);
  }
  ASSERT_EQ(slices[1].size(), number - 1) << "of the rank that samples, all";
  EXPECT_EQ(slices[1][0]["name"], "frame 1: 1 chunk of 6");
  EXPECT_EQ(slices[1][3]["name"], "frame 4: 1 chunk of 2");
  EXPECT_EQ(slices[1][4]["name"], "frame 5: 1 text");
  EXPECT_EQ(slices[1][2]["args"]["sequences"][0], "page 0: tokens 12 to 17");
  ASSERT_GE(slices[0].size(), 4U);
  for (const auto& [rank, all] : slices) {
    for (size_t i = 1; i < all.size(); ++i) {
      EXPECT_LE(all[i - 1]["ts"].get<double>() + all[i - 1]["dur"].get<double>(),
                all[i]["ts"].get<double>() + 0.01)
          << "frames of rank " << rank << " overlap";
    }
  }
}

// What a stage waits for another is no work of it.
TEST(FrameTraceTest, WaitsForOtherStagesAreSlicesOfTheirOwn) {
  FrameTrace trace(2);
  Frame frame;
  frame.number = 1;
  frame.sequences.push_back({.num_tokens = 8, .cached = 0, .pages = {3}});
  trace.add(frame);
  const FrameTimes first{
      .number = 1, .begin_ns = 1'000, .input_ns = 1'000, .output_ns = 41'000, .end_ns = 45'000};
  const FrameTimes second{
      .number = 1, .begin_ns = 2'000, .input_ns = 43'000, .output_ns = 83'000, .end_ns = 83'000};
  trace.add(std::vector<RankFrameTimes>{{0, first}, {1, second}});
  std::map<std::pair<int, std::string>, std::pair<double, double>> slices;
  const json read = json::parse(trace.json());
  for (const json& event : read["traceEvents"]) {
    if (event["ph"] == "X") slices[{event["pid"], event["name"]}] = {event["ts"], event["dur"]};
  }
  using Slice = std::pair<double, double>;
  EXPECT_EQ(slices.size(), 4U);
  EXPECT_EQ((slices[{0, "frame 1: 1 chunk of 8"}]), Slice(0, 40));
  EXPECT_EQ((slices[{0, "waits for the next stage"}]), Slice(40, 4));
  EXPECT_EQ((slices[{1, "waits for the stage before"}]), Slice(1, 41));
  EXPECT_EQ((slices[{1, "frame 1: 1 chunk of 8"}]), Slice(42, 40));
}

TEST(FrameTraceTest, IsBounded) {
  FrameTrace trace(1, 2);
  for (uint64_t number = 0; number < 5; ++number) {
    Frame frame;
    frame.number = number;
    trace.add(frame);
    trace.add(std::vector<RankFrameTimes>{{.rank = 0, .times = {.number = number}}});
  }
  const json read = json::parse(trace.json());
  EXPECT_EQ(read["traceEvents"].size(), 3U) << "a name and two frames";
}

}  // namespace
}  // namespace tessera::serve
