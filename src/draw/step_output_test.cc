// What is made of a simulated step: figures, timelines, picture, trace, memory curve.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/testing/count_parts.h"
#include "compile/program/memory_parts.h"
#include "draw/memory_curve.h"
#include "draw/pass_color.h"
#include "draw/step_svg.h"
#include "draw/step_text.h"
#include "draw/svg.h"
#include "draw/trace.h"
#include "sim/replay/distinct_programs.h"
#include "sim/testing/test_runs.h"

namespace tessera {
namespace {

using testing::count_parts;

struct Simulated {
  StepGraph step;
  RankPrograms programs;
  StepTimeline timeline;
  std::vector<RankActivity> activities;
};

Simulated simulate(const std::string& mesh, ReplayOptions options = {}, int micro_batches = 4) {
  RunSpec spec = testing::small_spec(mesh);
  spec.model.layers = 4;
  spec.train.global_batch = micro_batches * spec.parallel.replicas();
  Simulated result;
  result.step = build_step(testing::resolved(std::move(spec)), StepKind::kTraining);
  result.programs = distinct_programs(result.step);
  result.timeline = replay_step(result.programs, RooflineTimes(testing::two_nodes()), options);
  result.activities = activity_of(result.timeline);
  return result;
}

const char* const kMeshes[] = {"dp=1",
                               "dp=2,zero=1",
                               "tp=2",
                               "pp=2,dp=2,tp=2,sequence_parallel=true",
                               "pp=4,schedule=zb-h1",
                               "pp=2,schedule=zb-v",
                               "dp=2,fsdp=4,cp=2",
                               "fsdp=4,recompute=full"};

TEST(DistinctProgramsTest, ReplicasTakeTheSameTimes) {
  for (const char* mesh : kMeshes) {
    const Simulated shared = simulate(mesh);
    const RankPrograms all = all_programs(compile_ranks(shared.step));
    const StepTimeline every =
        replay_step(all, RooflineTimes(testing::two_nodes()), {.fold = false});
    EXPECT_EQ(every.makespan, shared.timeline.makespan) << mesh;
    EXPECT_LE(shared.programs.distinct.size(), all.distinct.size());
  }
}

TEST(StepActivityTest, ComputeExposedCommunicationAndIdleTimeAreTheWholeStep) {
  for (const char* mesh : kMeshes) {
    const Simulated run = simulate(mesh);
    for (const RankActivity& activity : run.activities) {
      double sum = activity.compute_s + activity.idle_s;
      for (const auto& [group, seconds] : activity.exposed_s) {
        sum += seconds;
        EXPECT_LE(seconds, activity.communication_s.at(group) * (1 + 1e-12)) << mesh << group;
      }
      EXPECT_NEAR(sum, run.timeline.makespan, 1e-12) << mesh;
      EXPECT_GT(activity.compute_s, 0) << mesh;
    }
  }
  EXPECT_GT(simulate("tp=2").activities[0].exposed_s.at("tp"), 0);
  EXPECT_GT(simulate("fsdp=4,recompute=full").activities[0].recompute_s, 0);
}

TEST(StepActivityTest, ARankHasEveryMicroBatchForwardAndBackward) {
  const Simulated run = simulate("pp=4");
  for (const RankActivity& activity : run.activities) {
    std::map<SegmentKind, std::set<int>> seen;
    for (const Segment& segment : activity.segments) {
      seen[segment.kind].insert(segment.micro_batch);
    }
    EXPECT_EQ(seen[SegmentKind::kForward], (std::set{0, 1, 2, 3}));
    EXPECT_EQ(seen[SegmentKind::kBackward], (std::set{0, 1, 2, 3}));
    EXPECT_EQ(seen[SegmentKind::kUpdate].size(), 1U);
  }
  const Simulated split = simulate("pp=4,schedule=zb-h1");
  const auto& segments = split.activities[2].segments;
  const auto has = [&](SegmentKind kind) {
    return std::any_of(segments.begin(), segments.end(),
                       [kind](const Segment& segment) { return segment.kind == kind; });
  };
  EXPECT_TRUE(has(SegmentKind::kInputGrad) && has(SegmentKind::kWeightGrad));
}

TEST(RowsToShowTest, ClassesThatNobodyCanTellApartAreOneRow) {
  StepTimeline timeline;
  timeline.makespan = 10;
  timeline.ranks = {{{0, 2}, nullptr, {}}, {{1}, nullptr, {}}, {{3}, nullptr, {}}};
  RankActivity activity;
  activity.segments = {{SegmentKind::kForward, 0, 0, 4}};
  activity.compute_s = 4;
  activity.idle_s = 6;
  std::vector<RankActivity> activities(3, activity);
  activities[1].segments[0].end += 1e-3;  // a ten-thousandth of the step
  activities[2].segments[0].end += 0.1;
  const std::vector<ShownRow> rows = rows_to_show(timeline, activities);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].ranks, (std::vector{0, 1, 2}));
  EXPECT_EQ(rows[1].ranks, std::vector{3});
  EXPECT_EQ(rows[1].of_class, 2U);
}

TEST(RowsToShowTest, ALostRankHasARowOfItsOwn) {
  StepTimeline timeline;
  timeline.makespan = 10;
  timeline.ranks = {{{0}, nullptr, {}}, {{1}, nullptr, {}}, {{2}, nullptr, {}}};
  const std::vector<RankActivity> activities(3);
  EXPECT_EQ(rows_to_show(timeline, activities).size(), 1U);
  timeline.lost = {.rank = 1, .at_s = 5};
  const std::vector<ShownRow> rows = rows_to_show(timeline, activities);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].ranks, (std::vector{0, 2}));
  EXPECT_EQ(rows[1].ranks, std::vector{1});
}

TEST(StepTextTest, ShowsPassesWaitsAndShares) {
  const Simulated run = simulate("pp=2,dp=2");
  const std::string text = step_timeline_text(run.timeline, run.activities, 60);
  EXPECT_NE(text.find("ranks 0-1 F"), std::string::npos) << text;
  EXPECT_NE(text.find("ranks 2-3 ."), std::string::npos) << text;
  const std::string table = step_table(run.timeline, run.activities);
  for (const char* word : {"compute", "exposed dp", "exposed pp", "idle", "ranks 2-3 (pp1)"}) {
    EXPECT_NE(table.find(word), std::string::npos) << word << "\n" << table;
  }
}

TEST(StepTextTest, SaysTimesWithThreeDigits) {
  EXPECT_EQ(seconds_text(0), "0");
  EXPECT_EQ(seconds_text(0.0123456), "12.3 ms");
  EXPECT_EQ(seconds_text(0.99999), "1.00 s");
  EXPECT_EQ(seconds_text(123.4), "123 s");
  EXPECT_EQ(seconds_text(2.5e-7), "250 ns");
}

TEST(StepTextTest, SaysWhoWaitsForALostRank) {
  const Simulated run = simulate("pp=2,dp=2", {.lost = LostRank{1, 1e-5}});
  const std::string text = lost_text(run.timeline);
  EXPECT_NE(text.find("rank 1 is lost after 10.0 us"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 3 waits for rank 1 in receive over pp"), std::string::npos) << text;
  EXPECT_NE(step_timeline_text(run.timeline, run.activities, 60).find("xx\n"), std::string::npos);
  EXPECT_NE(step_table(run.timeline, run.activities).find("rank 1 (pp0 dp1), lost"),
            std::string::npos);
  const auto json = step_json(run.timeline, run.activities);
  EXPECT_EQ(json["lost"]["rank"], 1);
  EXPECT_FALSE(json["stuck"].empty());
}

TEST(StepSvgTest, DrawsEveryRankAndIsTheSameEveryTime) {
  const Simulated run = simulate("pp=4");
  const std::string svg = step_svg(run.timeline, run.activities, "title <&>");
  EXPECT_EQ(svg, step_svg(run.timeline, run.activities, "title <&>"));
  EXPECT_NE(svg.find("title &lt;&amp;&gt;"), std::string::npos);
  for (const char* word : {"rank 0", "rank 3", "forward", "backward", "idle"}) {
    EXPECT_NE(svg.find(word), std::string::npos) << word;
  }
}

TEST(StepSvgTest, OfALostRankSaysWhoWaitsForWhomAndUntilWhenItLived) {
  const Simulated run = simulate("pp=2,dp=2", {.lost = LostRank{1, 1e-5}});
  const std::string svg = step_svg(run.timeline, run.activities, "a run");
  EXPECT_NE(svg.find(">a run: rank 1 lost after 10.0 us<"), std::string::npos) << svg;
  EXPECT_EQ(count_parts(svg, "fill=\"url(#hatch)\""), 1U);
  EXPECT_EQ(count_parts(svg, ">lost<"), 1U);
  EXPECT_GE(count_parts(svg, ">waits for rank 1"), 1U) << svg;
  EXPECT_NE(svg.find(">waits for ever<"), std::string::npos);
  const Simulated whole = simulate("pp=2,dp=2");
  EXPECT_EQ(step_svg(whole.timeline, whole.activities, "").find("hatch"), std::string::npos);
}

// A row of `count` micro-batches, each a forward of 1 and a backward of 2, and nothing else.
Simulated one_row(int count) {
  Simulated run;
  run.timeline.ranks = {{{0}, nullptr, {}}};
  run.timeline.makespan = 3.0 * count;
  RankActivity activity;
  for (int m = 0; m < count; ++m) {
    const double at = 3.0 * m;
    activity.segments.push_back({SegmentKind::kForward, m, at, at + 1});
    activity.segments.push_back({SegmentKind::kBackward, m, at + 1, at + 3});
  }
  run.activities = {activity};
  return run;
}

TEST(StepSvgTest, LongTimelinesAreNotEatenByOutlines) {
  const Simulated few = one_row(8), many = one_row(64), most = one_row(512);
  const auto svg_of = [](const Simulated& run) {
    return step_svg(run.timeline, run.activities, "");
  };
  // The row and the legend have three outlined boxes; passes only where they are wide.
  EXPECT_EQ(count_parts(svg_of(few), "stroke-width"), 3U + 16U);
  EXPECT_EQ(count_parts(svg_of(many), "stroke-width"), 3U + 128U);  // 5.7 and 11.5 pixels
  EXPECT_EQ(count_parts(svg_of(most), "stroke-width"), 3U);
  EXPECT_EQ(svg_of(many).find("shares of the time"), std::string::npos);
  EXPECT_NE(svg_of(most).find("shares of the time"), std::string::npos);
  EXPECT_LT(svg_of(most).size(), svg_of(few).size() * 20);
}

TEST(StepSvgTest, TheLegendHasWhatIsSeen) {
  Simulated run = one_row(8);
  const auto svg = [&] { return step_svg(run.timeline, run.activities, ""); };
  EXPECT_NE(svg().find(">backward<"), std::string::npos);
  for (const char* word : {">idle<", ">update<", ">waits for communication<"}) {
    EXPECT_EQ(svg().find(word), std::string::npos) << word;
  }
  run.activities[0].update_s = 0.001;
  EXPECT_EQ(svg().find(">update<"), std::string::npos);  // a twentieth of a pixel
  run.activities[0].update_s = 1;
  EXPECT_NE(svg().find(">update<"), std::string::npos);
  run.activities[0].waits = {{20, 22, "dp"}};
  run.activities[0].idle_s = 1;
  EXPECT_NE(svg().find(">waits for communication<"), std::string::npos);
  EXPECT_NE(svg().find(">idle<"), std::string::npos);
}

// 64 micro-batches in 60 columns: forward is a third of every column, and of the letters.
TEST(StepTextTest, ForwardIsSeenWherePassesAreNarrowerThanAColumn) {
  const Simulated run = one_row(64);
  const std::string text = step_timeline_text(run.timeline, run.activities, 60);
  const auto forward = std::count(text.begin(), text.end(), 'F');
  EXPECT_GE(forward, 18) << text;
  EXPECT_LE(forward, 22) << text;
}

TEST(MemoryCurveTest, StaysInsideTheArenaAndEndsNearNothing) {
  for (const char* mesh : kMeshes) {
    const Simulated run = simulate(mesh);
    for (const RankTimeline& rank : run.timeline.ranks) {
      const auto arena = [&](ArenaKind kind) {
        return rank.program->arena_bytes[static_cast<size_t>(kind)];
      };
      int64_t peak = 0;
      double last = -1;
      for (const MemoryPoint& point : memory_curve(rank)) {
        EXPECT_GT(point.time, last);
        last = point.time;
        EXPECT_LE(point.activations + point.gradients, arena(ArenaKind::kActivations)) << mesh;
        EXPECT_LE(point.communication, arena(ArenaKind::kCommunication)) << mesh;
        EXPECT_GE(point.activations, 0);
        peak = std::max(peak, point.activations + point.gradients);
      }
      // The arena is that large because so much is alive at one time.
      EXPECT_GT(peak, arena(ArenaKind::kActivations) / 2) << mesh;
    }
  }
}

// As in the tables of memory: the gradients of one micro-batch are no activations, although they
// lie where those were.
TEST(MemoryCurveTest, GradientsAreAPartOfTheirOwn) {
  for (const char* mesh : {"dp=2,tp=2,zero=0", "dp=4,zero=1"}) {
    const Simulated run = simulate(mesh, {}, 1);
    for (const RankTimeline& rank : run.timeline.ranks) {
      ASSERT_EQ(rank.program->arena_bytes[static_cast<size_t>(ArenaKind::kGradients)], 0) << mesh;
      const int64_t all = gradients_among_activations(*rank.program);
      int64_t peak = 0;
      for (const MemoryPoint& point : memory_curve(rank)) {
        EXPECT_GE(point.activations, 0) << mesh;
        peak = std::max(peak, point.gradients);
      }
      EXPECT_LE(peak, all) << mesh;
      EXPECT_GT(peak, all / 4) << mesh;  // ranks that share them keep a part
    }
    const auto json = nlohmann::json::parse(trace_json(run.timeline, run.activities));
    double most = 0;
    for (const auto& event : json["traceEvents"]) {
      if (event["ph"] == "C") most = std::max(most, event["args"]["gradients"].get<double>());
    }
    EXPECT_GT(most, 0) << mesh;
  }
}

TEST(TraceTest, IsWhatViewersRead) {
  for (const char* mesh : kMeshes) {
    const Simulated run = simulate(mesh);
    const std::string text = trace_json(run.timeline, run.activities, {"abc"});
    EXPECT_EQ(text, trace_json(run.timeline, run.activities, {"abc"}));
    const auto json = nlohmann::json::parse(text);
    EXPECT_EQ(json["distributedInfo"]["world_size"], run.programs.world());
    EXPECT_EQ(json["otherData"]["config_digest"], "abc");
    double last = 0;
    std::map<std::pair<int, int>, std::vector<double>> open;  // ends of slices, by thread
    std::map<int, int> flows;
    size_t slices = 0;
    for (const auto& event : json["traceEvents"]) {
      const std::string phase = event["ph"];
      if (phase == "M") continue;
      EXPECT_GE(event["ts"], last) << mesh;
      last = event["ts"];
      if (phase == "s") ++flows[event["id"]];
      if (phase == "f") --flows[event["id"]];
      if (phase != "X") continue;
      ++slices;
      std::vector<double>& ends = open[{event["pid"], event["tid"]}];
      const double begin = event["ts"], end = begin + event["dur"].get<double>();
      while (!ends.empty() && ends.back() <= begin + 0.002) ends.pop_back();
      EXPECT_TRUE(ends.empty() || end <= ends.back() + 0.002) << mesh << event.dump();
      ends.push_back(end);
    }
    for (const auto& [id, balance] : flows) EXPECT_EQ(balance, 0) << mesh;
    EXPECT_EQ(flows.empty(), std::string(mesh).find("pp=") == std::string::npos) << mesh;
    size_t instructions = 0;
    for (const RankTimeline& rank : run.timeline.ranks) {
      instructions += rank.program->instructions.size();
    }
    EXPECT_GT(slices, instructions) << mesh;
  }
}

// What docs/simulate.md says of the tracks, and what viewers need to draw arrows and counters.
TEST(TraceTest, HasNamedTracksArrowsBetweenSlicesAndCounters) {
  const Simulated run = simulate("pp=2,dp=2,tp=2,sequence_parallel=true,zero=1");
  const auto json = nlohmann::json::parse(trace_json(run.timeline, run.activities));
  EXPECT_EQ(json["displayTimeUnit"], "ms");
  EXPECT_EQ(json["distributedInfo"]["backend"], "sim");
  const std::map<int, std::string> names = {
      {1, "compute"}, {2, "tp cp ep"}, {3, "pp send/receive"}, {4, "dp fsdp"}};
  std::set<std::pair<int, int>> named;
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> slices;  // by thread
  for (const auto& event : json["traceEvents"]) {
    if (event["name"] == "thread_name") {
      EXPECT_EQ(event["args"]["name"], names.at(event["tid"]));
      named.emplace(event["pid"], event["tid"]);
    }
    if (event["ph"] == "X") {
      slices[{event["pid"], event["tid"]}].emplace_back(
          event["ts"], event["ts"].get<double>() + event["dur"].get<double>());
    }
  }
  int arrows = 0, counters = 0;
  for (const auto& event : json["traceEvents"]) {
    const std::string phase = event["ph"];
    if (phase == "X") {
      EXPECT_TRUE(named.contains({event["pid"], event["tid"]})) << event;
    }
    if (phase == "s" || phase == "f") {
      ++arrows;
      const double at = event["ts"];
      const auto& own = slices.at({event["pid"], event["tid"]});
      EXPECT_TRUE(std::any_of(own.begin(), own.end(), [at](const auto& slice) {
        return slice.first <= at && at <= slice.second;
      })) << event;
    }
    if (phase != "C") continue;
    ++counters;
    EXPECT_EQ(event["name"], "memory GiB");
    for (const auto& [key, value] : event["args"].items()) EXPECT_GE(value, 0) << key;
  }
  EXPECT_GT(arrows, 0);
  EXPECT_GT(counters, 0);
}

TEST(TraceTest, OfOneRankHasItsNumber) {
  const Simulated run = simulate("pp=2");
  const auto json = nlohmann::json::parse(trace_json_of(run.timeline, run.activities, 1));
  EXPECT_EQ(json["distributedInfo"]["rank"], 1);
  for (const auto& event : json["traceEvents"]) EXPECT_EQ(event["pid"], 1);
}

// Kernels of an update that waits between all of them, each time for less than can be drawn: as
// much of the row is painted as an update as it works, not as it lasts.
TEST(StepSvgTest, ShortWaitsOfAnUpdateAreNotPaintedAsUpdate) {
  Simulated run = simulate("dp=2,zero=1");
  constexpr int kKernels = 4000;
  const double step = run.timeline.makespan, part = step / kKernels;
  RankActivity activity;
  activity.segments.push_back({.kind = SegmentKind::kUpdate, .begin = 0, .end = step});
  for (int i = 0; i < kKernels; ++i) {
    activity.waits.push_back({(i + 0.25) * part, (i + 1) * part, i % 2 == 0 ? "dp" : ""});
  }
  activity.update_s = step / 4;
  run.activities.assign(run.activities.size(), activity);
  const std::string svg = step_svg(run.timeline, run.activities, "waits");
  constexpr double kRowPixels = 1100 * 24;
  const auto painted = [&](Color color) {
    double pixels = 0;
    const std::regex area("width=\"([0-9.]+)\" height=\"([0-9.]+)\" fill=\"" + hex(color) + "\"");
    for (std::sregex_iterator it(svg.begin(), svg.end(), area), end; it != end; ++it) {
      pixels += std::stod((*it)[1]) * std::stod((*it)[2]);
    }
    return pixels / kRowPixels;
  };
  EXPECT_NEAR(painted(kUpdateColor), 0.25, 0.05);
  EXPECT_NEAR(painted(kExposedColor), 0.375, 0.06);
}

}  // namespace
}  // namespace tessera
