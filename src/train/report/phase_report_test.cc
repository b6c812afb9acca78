#include "train/report/phase_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

namespace tessera {
namespace {

PhaseTimes reading(double scale) {
  PhaseTimes times;
  for (size_t i = 0; i < kNumPasses; ++i) times.passes[i] = scale * static_cast<double>(1 << i);
  times.exposed = 100 * scale;
  times.data = 1000 * scale;
  return times;
}

TEST(PhaseReportTest, GivesMillisecondsPerStepBetweenTwoReadings) {
  const auto json = phase_ms(reading(1), reading(3), 4);
  EXPECT_EQ(json.at("forward"), 500.0);                  // 2 s / 4 steps
  EXPECT_EQ(json.at("backward"), 2000.0 / 4 * (2 + 4));  // input and weight gradients
  EXPECT_EQ(json.at("update"), 2000.0 / 4 * (8 + 16));   // reduction and update
  EXPECT_EQ(json.at("recompute"), 2000.0 / 4 * 32);
  EXPECT_EQ(json.at("comm_exposed"), 50'000.0);
  EXPECT_EQ(json.at("data"), 500'000.0);
}

TEST(PhaseReportTest, LeavesOutARecomputationThatThereIsNot) {
  PhaseTimes now = reading(1);
  now.passes[static_cast<size_t>(Pass::kRecompute)] = 0;
  EXPECT_FALSE(phase_ms({}, now, 1).contains("recompute"));
}

TEST(PhaseReportTest, ListsFewRanksAndSumsUpMany) {
  std::vector<int64_t> bytes(64);
  std::iota(bytes.begin(), bytes.end(), 1000);
  EXPECT_EQ(memory_of_ranks(bytes).size(), 64U);
  EXPECT_EQ(memory_of_ranks(bytes).at(63), 1063);
  bytes.push_back(7);
  EXPECT_EQ(memory_of_ranks(bytes).dump(), R"({"ranks":65,"least":7,"most":1063})");
}

}  // namespace
}  // namespace tessera
