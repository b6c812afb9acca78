#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "api/call.h"
#include "base/error.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

Json experts_of(const nlohmann::json& request) { return call("experts", request, {}); }

int64_t sum_of(const Json& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0},
                         [](int64_t sum, const Json& one) { return sum + one.get<int64_t>(); });
}

TEST(ShowExpertsTest, EveryTokenHasDifferentExpertsWithWeightsThatSumToOne) {
  const Json json = experts_of({{"tokens", 256}, {"top_k", 3}});
  for (size_t token = 0; token < 256; ++token) {
    const auto chosen = json.at("choices")[token].get<std::vector<int>>();
    EXPECT_EQ(std::set<int>(chosen.begin(), chosen.end()).size(), 3U);
    const auto weights = json.at("weights")[token].get<std::vector<double>>();
    EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-12);
    EXPECT_TRUE(std::is_sorted(weights.rbegin(), weights.rend()));
  }
  EXPECT_EQ(sum_of(json.at("loads")), 256 * 3);
}

TEST(ShowExpertsTest, WhatIsKeptIsWhatTravels) {
  for (const double skew : {0.0, 0.5, 1.0}) {
    const Json json = experts_of({{"tokens", 512}, {"skew", skew}});
    int64_t rows = 0;
    for (const Json& row : json.at("sent")) rows += sum_of(row);
    EXPECT_EQ(rows, 1024 - sum_of(json.at("dropped")));
    EXPECT_EQ(sum_of(json.at("received")), rows);
    for (size_t e = 0; e < 8; ++e) {
      const int64_t kept =
          json.at("loads")[e].get<int64_t>() - json.at("dropped")[e].get<int64_t>();
      EXPECT_LE(kept, json.at("capacity").get<int64_t>());
    }
  }
}

TEST(ShowExpertsTest, SkewMakesLoadsUnevenAndCapacityDrops) {
  const Json even = experts_of({{"tokens", 1024}});
  const Json skewed = experts_of({{"tokens", 1024}, {"skew", 1}});
  EXPECT_EQ(even.at("capacity"), 320) << "1.25 * 1024 * 2 / 8";
  EXPECT_LT(even.at("imbalance").get<double>(), 1.2);
  EXPECT_EQ(sum_of(even.at("dropped")), 0);
  EXPECT_GT(skewed.at("imbalance").get<double>(), 2);
  EXPECT_GT(sum_of(skewed.at("dropped")), 100);
  const Json boundless = experts_of({{"tokens", 1024}, {"skew", 1}, {"capacity_factor", 0}});
  EXPECT_EQ(sum_of(boundless.at("dropped")), 0);
  EXPECT_EQ(boundless.at("loads"), skewed.at("loads"));
}

TEST(ShowExpertsTest, TheSameSeedGivesTheSameChoices) {
  const Json once = experts_of({{"seed", 7}});
  EXPECT_EQ(once, experts_of({{"seed", 7}}));
  EXPECT_NE(once.at("choices"), experts_of({{"seed", 8}}).at("choices"));
  EXPECT_THROW(static_cast<void>(experts_of({{"experts", 6}})), ConfigError);
  EXPECT_THROW(static_cast<void>(experts_of({{"top_k", 9}})), ConfigError);
  EXPECT_THROW(static_cast<void>(experts_of({{"tokens", 63}})), ConfigError);
}

}  // namespace
}  // namespace tessera
