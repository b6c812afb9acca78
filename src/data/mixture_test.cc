#include "data/mixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

// Every part is within one of its share after every sample, and its samples are counted one by one.
void expect_fair(const std::vector<double>& weights, int64_t samples, double tolerance) {
  const Mixture mixture(weights);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> had(weights.size());
  for (int64_t n = 0; n < samples; ++n) {
    const Mixture::Choice choice = mixture.at(n);
    const auto part = static_cast<size_t>(choice.part);
    ASSERT_EQ(choice.index, had[part]) << "sample " << n;
    ++had[part];
    for (size_t i = 0; i < weights.size(); ++i) {
      const double share = static_cast<double>(n + 1) * weights[i] / total;
      ASSERT_LT(std::abs(static_cast<double>(had[i]) - share), 1 + tolerance)
          << "part " << i << " after " << n + 1;
    }
  }
}

TEST(MixtureTest, EveryPartIsWithinOneOfItsShareAfterAnyNumberOfSamples) {
  expect_fair({1}, 100, 0);
  expect_fair({3, 1}, 1000, 0);
  expect_fair({0.7, 0.2, 0.1}, 5000, 0);
  expect_fair({1, 1, 1, 1, 1, 1, 1}, 1000, 0);
  expect_fair({100, 1, 1, 1}, 5000, 0);
  expect_fair({0.5, 0.25, 0.123, 0.127}, 20'000, 0);
  expect_fair({5, 0.001, 2.5, 7.25, 1e-3}, 60'000, 0);
  // No decimals: shares are rounded to millionths.
  expect_fair({std::sqrt(2.0), 1, std::sqrt(3.0)}, 50'000, 0.05);
}

TEST(MixtureTest, KnowsWhenItRepeats) {
  const Mixture mixture(std::vector<double>{2, 1});
  EXPECT_EQ(mixture.period(), 3);
  EXPECT_EQ(mixture.share(0), 2);
  const Mixture::Choice far = mixture.at(3'000'000'000'000);
  EXPECT_EQ(far.part, mixture.at(0).part);
  EXPECT_EQ(far.index, mixture.at(0).index + 1'000'000'000'000 * mixture.share(far.part));
}

TEST(MixtureTest, RefusesWeightsThatAreNone) {
  for (const std::vector<double>& weights :
       {std::vector<double>{}, {0}, {1, -1}, {1, NAN}, {1, 1e-9}}) {
    EXPECT_THROW(Mixture{weights}, ConfigError);
  }
}

}  // namespace
}  // namespace tessera
