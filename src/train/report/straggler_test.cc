#include "train/report/straggler.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compile/model/parameters.h"
#include "train/directory/run_remarks.h"
#include "train/report/slow_rank.h"

namespace tessera {
namespace {

Mesh mesh_with(int64_t pp, int64_t dp) {
  ParallelSpec parallel;
  parallel.pp = pp;
  parallel.dp = dp;
  return mesh_of(parallel);
}

TEST(StragglerTest, NamesTheRankThatComputesLongest) {
  const auto found = find_straggler(mesh_with(1, 4), {100, 101, 120, 99});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rank, 2);
  EXPECT_DOUBLE_EQ(found->median_ms, 100.5);
  EXPECT_NEAR(found->more(), 0.194, 0.001);
}

TEST(StragglerTest, SmallDifferencesAreNotSaid) {
  EXPECT_FALSE(find_straggler(mesh_with(1, 4), {100, 101, 104, 99}).has_value());
  EXPECT_FALSE(find_straggler(mesh_with(1, 1), {100}).has_value());
  EXPECT_FALSE(find_straggler(mesh_with(1, 2), {0, 0}).has_value());
}

// The first stage has the embedding, the last the head: that is no fault of a rank.
TEST(StragglerTest, StagesAreNotComparedWithEachOther) {
  const Mesh mesh = mesh_with(2, 2);
  std::vector<double> times(4);
  for (int rank = 0; rank < 4; ++rank) {
    times[static_cast<size_t>(rank)] = mesh.coord(rank, Axis::kPp) == 0 ? 50 : 100;
  }
  EXPECT_FALSE(find_straggler(mesh, times).has_value());
  times[3] *= 1.5;
  ASSERT_TRUE(find_straggler(mesh, times).has_value());
  EXPECT_EQ(find_straggler(mesh, times)->rank, 3);
}

TEST(StragglerTest, WaitsAreNoComputeTime) {
  ComputeClock clock;
  EXPECT_EQ(clock.ms_per_step(0), 0);
  clock.add_step(0.5);
  clock.add_step(0.7);
  EXPECT_NEAR(clock.ms_per_step(0.2), 500, 1e-9);
}

TEST(StragglerTest, IsSaidAtTheEnd) {
  nlohmann::ordered_json summary = {{"steps", 1234}};
  EXPECT_EQ(run_remarks(summary), "");
  add_compute_times(mesh_with(1, 3), {100, 100, 130}, summary);
  EXPECT_EQ(run_remarks(summary),
            "\nslowest rank: 2 computes 130.0 ms a step, 30 % more than the median of its stage "
            "(100.0 ms)\n");
  summary.erase("straggler");
  summary["out_of_time"] = {{"max_minutes", 1.5}, {"planned_steps", 5000}};
  EXPECT_EQ(run_remarks(summary),
            "\nthe time was up (--max-minutes 1.5): 1,234 of 5,000 steps are done\n");
}

TEST(SlowRankTest, IsSlowStepAfterStep) {
  const std::vector<double> usual(kSlowWindow, 10.0);
  const std::vector<double> slow(kSlowWindow, 15.0);
  const auto found = find_slow_rank(mesh_with(1, 4), {usual, usual, slow, usual});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rank, 2);
  EXPECT_DOUBLE_EQ(found->median_ms, 10);
  // The stages of a pipeline do different work.
  EXPECT_FALSE(find_slow_rank(mesh_with(2, 2), {usual, usual, slow, slow}).has_value());
  EXPECT_FALSE(
      find_slow_rank(mesh_with(1, 4), {usual, usual, std::vector<double>(kSlowWindow, 12), usual})
          .has_value());
}

// One long pause is no slow machine.
TEST(SlowRankTest, IsNotSlowForOneStep) {
  const std::vector<double> usual(kSlowWindow, 10.0);
  std::vector<double> paused = usual;
  paused[7] = 5000;
  for (size_t step = 20; step < kSlowWindow; ++step) paused[step] = 9;
  EXPECT_FALSE(find_slow_rank(mesh_with(1, 4), {usual, paused, usual, usual}).has_value());
}

}  // namespace
}  // namespace tessera
