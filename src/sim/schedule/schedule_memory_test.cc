#include "sim/schedule/schedule_memory.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

std::vector<int64_t> peaks(std::string_view name, int ranks, int micro_batches,
                           const StageBytes& stage, int virtual_stages = 0) {
  const PipelineSchedule schedule = make_schedule(name, ranks, virtual_stages, micro_batches);
  return peak_activations(schedule,
                          std::vector<StageBytes>(static_cast<size_t>(schedule.stages), stage));
}

TEST(ScheduleMemoryTest, GivesTheFormulas) {
  EXPECT_EQ(peaks("gpipe", 4, 8, {10, 4}), (std::vector<int64_t>{80, 80, 80, 80}));
  EXPECT_EQ(peaks("1f1b", 4, 8, {10, 4}), (std::vector<int64_t>{40, 30, 20, 10}));
  // 2 (p - r - 1) + (v - 1) p + 1 chunks on rank r.
  EXPECT_EQ(peaks("interleaved", 4, 8, {10, 4}, 2), (std::vector<int64_t>{110, 90, 70, 50}));
  // As many as 1F1B's first rank, on every rank, where weight gradients need all that is kept.
  EXPECT_EQ(peaks("zb-h1", 4, 8, {10, 10}), (std::vector<int64_t>{40, 40, 40, 40}));
  EXPECT_EQ(peaks("zb-h2", 4, 8, {10, 10}), (std::vector<int64_t>{70, 70, 70, 70}));
  EXPECT_EQ(peaks("zb-v", 4, 8, {10, 10}), (std::vector<int64_t>{80, 80, 80, 80}));
}

TEST(ScheduleMemoryTest, WaitingWeightGradientsKeepOnlyWhatTheyNeed) {
  const std::vector<int64_t> all = peaks("zb-h1", 4, 8, {10, 10});
  const std::vector<int64_t> part = peaks("zb-h1", 4, 8, {10, 4});
  EXPECT_EQ(part[0], all[0]);
  EXPECT_LT(part[3], all[3]);
  EXPECT_GT(part[3], 10);
}

TEST(ScheduleMemoryTest, RefusesWhatDoesNotFitANumber) {
  EXPECT_THROW(peaks("gpipe", 1, 20, {1'000'000'000'000'000'000, 0}), Error);
}

}  // namespace
}  // namespace tessera
