#include "train/report/planned_measured.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compile/testing/test_spec.h"
#include "plan/report/plan_json.h"

namespace tessera {
namespace {

using nlohmann::ordered_json;

ordered_json plan_of_two_ranks() {
  return full_plan_json(plan_of(compile_run(testing::resolved(testing::small_spec("dp=2")))));
}

// What a run would say that did as planned.
ordered_json run_as_planned(const ordered_json& plan) {
  return {{"kind", "run"}, {"world", 2}, {"ranks", plan.at("ranks")}};
}

int64_t arenas(const ordered_json& plan) {
  int64_t sum = 0;
  for (const auto& rank : plan.at("ranks")) sum += rank["memory_bytes"]["total"].get<int64_t>();
  return sum;
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(PlannedMeasuredTest, ShowsWhatTheSystemCountsBesideTheArenas) {
  const ordered_json plan = plan_of_two_ranks();
  ordered_json run = run_as_planned(plan);
  EXPECT_FALSE(says(planned_measured_table(plan, run), "resident"));
  run["resident_bytes"] = arenas(plan) + (int64_t{3} << 20);
  const std::string text = planned_measured_table(plan, run);
  EXPECT_TRUE(says(text, "resident, by the operating system")) << text;
  EXPECT_TRUE(says(text, "3.0 MiB is not arenas")) << text;
  EXPECT_TRUE(says(text, "equal the plan")) << text;
  EXPECT_FALSE(says(text, "GPU")) << text;
}

TEST(PlannedMeasuredTest, ArenasAreOnTheGpuWhereThereIsOne) {
  const ordered_json plan = plan_of_two_ranks();
  ordered_json run = run_as_planned(plan);
  run["resident_bytes"] = int64_t{5} << 20;
  run["gpu_used_bytes"] = arenas(plan) + (int64_t{7} << 20);
  const std::string text = planned_measured_table(plan, run);
  EXPECT_TRUE(says(text, "5.0 MiB is not arenas")) << text;
  EXPECT_TRUE(says(text, "7.0 MiB is not arenas")) << text;
}

TEST(PlannedMeasuredTest, SaysThatPagesWereNeverTouched) {
  const ordered_json plan = plan_of_two_ranks();
  ordered_json run = run_as_planned(plan);
  run["resident_bytes"] = 0;
  EXPECT_TRUE(says(planned_measured_table(plan, run), "of the arenas were never touched"));
}

TEST(PlannedMeasuredTest, NoticesAnotherNumberOfBytes) {
  const ordered_json plan = plan_of_two_ranks();
  ordered_json run = run_as_planned(plan);
  EXPECT_TRUE(plan_equals_measured(plan, run));
  run["ranks"][1]["memory_bytes"]["workspace"] =
      run["ranks"][1]["memory_bytes"]["workspace"].get<int64_t>() + 64;
  EXPECT_FALSE(plan_equals_measured(plan, run));
  EXPECT_TRUE(says(planned_measured_table(plan, run), "DIFFERS"));
}

}  // namespace
}  // namespace tessera
