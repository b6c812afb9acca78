#include "compile/pipeline/stage_balance.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace tessera {
namespace {

double most_expensive(std::span<const double> cost, std::span<const int> first) {
  double most = 0;
  for (size_t s = 0; s < first.size(); ++s) {
    const size_t end = s + 1 < first.size() ? static_cast<size_t>(first[s + 1]) : cost.size();
    const auto begin = cost.begin() + first[s];
    most = std::max(most, std::accumulate(begin, cost.begin() + static_cast<int>(end), 0.0));
  }
  return most;
}

// The least possible cost of the most expensive stage, by trying every cut.
double least_possible(std::span<const double> cost, int stages) {
  if (stages == 1) return std::accumulate(cost.begin(), cost.end(), 0.0);
  double best = 1e300;
  double first = 0;
  for (size_t n = 1; n + static_cast<size_t>(stages) <= cost.size() + 1; ++n) {
    first += cost[n - 1];
    best = std::min(best, std::max(first, least_possible(cost.subspan(n), stages - 1)));
  }
  return best;
}

TEST(StageBalanceTest, EqualUnitsGiveEvenStages) {
  EXPECT_EQ(balance_units(std::vector<double>(8, 1.0), 4), (std::vector{0, 2, 4, 6}));
  EXPECT_EQ(balance_units(std::vector<double>(10, 1.0), 4), (std::vector{0, 2, 4, 7}));
  EXPECT_EQ(balance_units(std::vector<double>(3, 1.0), 3), (std::vector{0, 1, 2}));
  EXPECT_EQ(balance_units(std::vector<double>(5, 1.0), 1), (std::vector{0}));
  EXPECT_EQ(balance_units(std::vector<double>(4, 0.0), 2).size(), 2U);
}

TEST(StageBalanceTest, AHeavyHeadTakesLayersFromTheLastStage) {
  const std::vector<double> cost = {1, 1, 1, 1, 1, 1, 1, 3};
  EXPECT_EQ(balance_units(cost, 2), (std::vector{0, 5}));
  EXPECT_EQ(balance_units(cost, 3), (std::vector{0, 3, 6}));
}

TEST(StageBalanceTest, RandomCostsAreCutAsWellAsPossibleAndNoUnitIsLost) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<double> cost;
    const int units = 2 + static_cast<int>(seed % 9);
    for (int u = 0; u < units; ++u) {
      cost.push_back(0.25 * std::floor(16 * uniform_at(seed, 0, static_cast<uint64_t>(u))));
    }
    for (int stages = 1; stages <= units; ++stages) {
      SCOPED_TRACE(fmt::format("seed {}, {} stages", seed, stages));
      const std::vector<int> first = balance_units(cost, stages);
      ASSERT_EQ(static_cast<int>(first.size()), stages);
      EXPECT_EQ(first.front(), 0);
      EXPECT_TRUE(std::is_sorted(first.begin(), first.end(), std::less_equal<>()));
      EXPECT_LT(first.back(), units);
      EXPECT_EQ(most_expensive(cost, first), least_possible(cost, stages));
    }
  }
}

TEST(StageBalanceTest, RefusesMoreStagesThanLayers) {
  try {
    balance_units(std::vector<double>(3, 1.0), 4);
    FAIL() << "four stages of three layers were accepted";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "4 pipeline stages (pp * virtual_stages), but the model has 3 layers, and every "
                 "stage needs one; use at most 3 stages");
  }
}

TEST(StageBalanceTest, TheHeadOfALargeVocabularyWeighsAsMuchAsSeveralBlocks) {
  ModelSpec model;
  model.layers = 16;
  model.hidden = 2048;
  model.ffn = 8192;
  model.heads = 32;
  model.kv_heads = 8;
  model.head_dim = 64;
  model.vocab = 128256;
  const std::vector<double> costs = block_costs(model, 2048);
  ASSERT_EQ(costs.size(), 16U);
  const double heads_worth = (costs.back() - costs[1]) / costs[1];
  EXPECT_GT(heads_worth, 3);
  EXPECT_LT(heads_worth, 5);
  EXPECT_EQ(balance_units(costs, 4), (std::vector{0, 5, 10, 15}));
}

}  // namespace
}  // namespace tessera
