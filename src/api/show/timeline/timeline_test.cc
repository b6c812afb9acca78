#include "api/show/timeline/timeline.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "api/call.h"
#include "base/error.h"

namespace tessera {
namespace {

using nlohmann::json;

const json kSmall = {{"model", "gpt2"}, {"cluster", "h100-8"}, {"pp", 2},        {"tp", 2},
                     {"zero", 1},       {"global_batch", 16},  {"seq_len", 1024}};
const json k405B = {
    {"model", "llama-3-405b"}, {"cluster", "h100-16384"}, {"tp", 8}, {"pp", 16}, {"zero", 1},
    {"global_batch", 2048}};

json with(json request, const json& more) {
  request.update(more);
  return request;
}

json timeline(const json& request) { return timeline_json(timeline_query(request), {}); }

std::string refusal(const json& request) {
  try {
    timeline(request);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

json simulated(const json& request) { return call("simulate", request, {}); }

// The time of the marks of a row, by the name of their pass.
std::map<std::string, double> seconds_of(const json& document, const json& row) {
  std::map<std::string, double> seconds;
  for (const json& mark : row.at("marks")) {
    seconds[document.at("passes").at(mark.at(2).get<size_t>())] +=
        mark.at(1).get<double>() - mark.at(0).get<double>();
  }
  return seconds;
}

double sum_of(const json& times) {
  double sum = 0;
  for (const auto& [name, seconds] : times.items()) sum += seconds.get<double>();
  return sum;
}

double near(const json& value) { return value.get<double>(); }

void expect_marks_add_up(const json& document) {
  const double step_s = document.at("step_s");
  for (const json& one : document.at("classes")) {
    const auto seconds = seconds_of(document, one.at("rows").at(0));
    double busy = 0;
    for (const auto& [pass, time] : seconds) busy += pass == "exposed" ? 0 : time;
    EXPECT_NEAR(busy, near(one.at("compute_s")), 1e-9 * step_s) << one.at("label");
    const auto exposed = seconds.find("exposed");
    EXPECT_NEAR(exposed == seconds.end() ? 0 : exposed->second, sum_of(one.at("exposed_s")),
                1e-9 * step_s);
    EXPECT_NEAR(busy + sum_of(one.at("exposed_s")) + near(one.at("idle_s")), step_s, 1e-9 * step_s);
  }
}

TEST(TimelineTest, MarksOfEveryDetailAddUpToWhatSimulateSays) {
  const json said = simulated(kSmall);
  for (const char* detail : {"instructions", "passes"}) {
    const json document = timeline(with(kSmall, {{"detail", detail}}));
    EXPECT_EQ(document.at("step_s"), said.at("step_s"));
    EXPECT_EQ(document.at("simulated_by"), "instructions");
    EXPECT_EQ(document.at("detail"), detail);
    EXPECT_FALSE(document.contains("joined"));
    expect_marks_add_up(document);
  }
  const json few = timeline(kSmall);
  EXPECT_EQ(few.at("detail"), "instructions");
}

TEST(TimelineTest, EveryRankIsInOneClass) {
  const json document = timeline(kSmall);
  int64_t ranks = 0, members = 0;
  for (const json& one : document.at("classes")) {
    ranks += one.at("ranks").get<int64_t>();
    for (const json& range : one.at("members")) {
      members += range.at(1).get<int64_t>() - range.at(0).get<int64_t>() + 1;
    }
  }
  EXPECT_EQ(ranks, 8);
  EXPECT_EQ(members, 8);
}

TEST(TimelineTest, MemoryIsNeverMoreThanThePlanHas) {
  const json plan = call("plan", kSmall, {});
  const json document = timeline(kSmall);
  int64_t most = 0;
  for (const json& one : document.at("classes")) {
    const int64_t whole = one.at("memory_bytes");
    EXPECT_LE(one.at("fullest_bytes").get<int64_t>(), whole);
    EXPECT_GT(one.at("fullest_bytes").get<int64_t>(), whole / 2);
    int64_t fullest = 0;
    double before = -1;
    for (const json& point : one.at("memory")) {
      EXPECT_GT(point.at(0).get<double>(), before);
      before = point.at(0);
      fullest = std::max(fullest, point.at(1).get<int64_t>());
    }
    EXPECT_EQ(fullest, one.at("fullest_bytes"));
    most = std::max(most, whole);
  }
  EXPECT_EQ(most, plan.at("peak_bytes"));
}

TEST(TimelineTest, MarksAreJoinedUntilThereAreFewEnough) {
  const json all = timeline(with(kSmall, {{"detail", "passes"}}));
  const int64_t marks = all.at("marks");
  const json fewer = timeline(with(kSmall, {{"detail", "passes"}, {"most_marks", marks * 2 / 3}}));
  EXPECT_LE(fewer.at("marks").get<int64_t>(), marks * 2 / 3);
  EXPECT_GT(near(fewer.at("joined").at("below_s")), 0);
  EXPECT_EQ(fewer.at("step_s"), all.at("step_s"));
  for (const json& one : fewer.at("classes")) {
    for (const json& row : one.at("rows")) {
      double at = 0;
      for (const json& mark : row.at("marks")) {
        EXPECT_GE(near(mark.at(0)), at);
        EXPECT_GE(near(mark.at(1)), near(mark.at(0)));
        at = mark.at(1);
      }
    }
  }
  EXPECT_NE(refusal(with(kSmall, {{"most_marks", 3}})).find("most_marks = 3"), std::string::npos);
}

TEST(TimelineTest, LargeMeshesAreClasses) {
  const json document = timeline(with(k405B, {{"global_batch", 1024}}));
  EXPECT_EQ(document.at("step_s"), simulated(with(k405B, {{"global_batch", 1024}})).at("step_s"));
  EXPECT_EQ(document.at("classes").size(), 16U);
  EXPECT_EQ(document.at("classes").at(3).at("coords"), (json{{"pp", 3}, {"dp", 0}, {"tp", 0}}));
  EXPECT_EQ(document.at("classes").at(3).at("ranks"), 1024);
  EXPECT_LE(document.at("marks").get<int64_t>(), 50'000);
}

TEST(TimelineTest, StagesAreTheSimulationByStages) {
  const json request = with(k405B, {{"dtype", "fp8"}});
  const json said = simulated(request);
  ASSERT_EQ(said.at("simulated_by"), "stages");
  const json document = timeline(request);
  EXPECT_EQ(document.at("step_s"), said.at("step_s"));
  ASSERT_EQ(document.at("classes").size(), 16U);
  for (size_t rank = 0; rank < 16; ++rank) {
    const json& one = document.at("classes").at(rank);
    const json& pipeline = said.at("pipeline").at("ranks").at(rank);
    EXPECT_EQ(one.at("busy_s"), pipeline.at("busy_s"));
    EXPECT_EQ(one.at("peak_live"), pipeline.at("peak_live"));
    const auto seconds = seconds_of(document, one.at("rows").at(0));
    EXPECT_NEAR(seconds.at("forward") + seconds.at("backward"), near(one.at("busy_s")), 1e-9);
    int most = 0;
    for (const json& point : one.at("live")) most = std::max(most, point.at(1).get<int>());
    EXPECT_EQ(most, one.at("peak_live"));
  }
  const json asked = timeline(with(k405B, {{"by", "stages"}}));
  EXPECT_EQ(asked.at("simulated_by"), "stages");
  EXPECT_EQ(asked.at("why_by_stages"), "asked for");
}

TEST(TimelineTest, OneStageHasATimelineByStagesToo) {
  const json request = {
      {"model", "llama-3-8b"}, {"cluster", "h100-8"}, {"tp", 8}, {"pp", 1}, {"zero", 1},
      {"global_batch", 4},     {"by", "stages"}};
  const json document = timeline(request);
  EXPECT_NEAR(near(document.at("end_s")) / near(document.at("step_s")), 1, 1e-6);
  EXPECT_EQ(document.at("classes").size(), 1U);
}

TEST(TimelineTest, ALostRankIsNamedWithThoseWhoWaitForIt) {
  const json document = timeline(with(kSmall, {{"lost", "rank=2,at=0.5"}}));
  EXPECT_EQ(document.at("lost").at("rank"), 2);
  EXPECT_FALSE(document.at("stuck").empty());
}

TEST(TimelineTest, WhatStagesDoNotHaveIsRefused) {
  EXPECT_NE(refusal(with(kSmall, {{"by", "stages"}, {"lost", "rank=2,at=0.5"}})).find("leave out"),
            std::string::npos);
  EXPECT_NE(refusal(with(k405B, {{"dtype", "fp8"}, {"by", "instructions"}})).find("fp8"),
            std::string::npos);
  EXPECT_EQ(refusal(with(kSmall, {{"by", "magic"}})),
            "timeline: by is \"magic\": expected one of stages, instructions");
}

}  // namespace
}  // namespace tessera
