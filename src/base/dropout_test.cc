#include "base/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace tessera {
namespace {

DropoutMask mask_of(double rate, uint64_t seed = 1, int64_t step = 1, int64_t unit = 1,
                    DropoutSite site = DropoutSite::kMlpOutput) {
  const StepParams params{.step = step, .seed = seed};
  return with_key({rate, unit, site, 0}, &params);
}

std::vector<double> row(const DropoutMask& mask, int64_t sample, int64_t position, int64_t head,
                        int64_t count) {
  std::vector<double> factors(static_cast<size_t>(count), -1);
  dropout_factors(mask, {sample, position, head}, 0, count, factors.data());
  return factors;
}

TEST(Dropout, DropsItsShareAndKeepsTheMean) {
  for (const double rate : {0.1, 0.5, 0.9}) {
    const DropoutMask mask = mask_of(rate);
    constexpr int64_t kRows = 200, kColumns = 501;
    int64_t dropped = 0;
    std::vector<int64_t> by_column(kColumns, 0);
    for (int64_t position = 0; position < kRows; ++position) {
      const std::vector<double> factors = row(mask, 3, position, 0, kColumns);
      for (size_t c = 0; c < factors.size(); ++c) {
        const bool zero = factors[c] == 0;
        if (!zero) {
          EXPECT_DOUBLE_EQ(factors[c], 1 / (1 - rate));
        }
        dropped += zero ? 1 : 0;
        by_column[c] += zero ? 1 : 0;
      }
    }
    constexpr double kCount = static_cast<double>(kRows * kColumns);
    const double sigma = std::sqrt(rate * (1 - rate) / kCount);
    EXPECT_NEAR(static_cast<double>(dropped) / kCount, rate, 5 * sigma);
    // No column is special: 200 draws each, five sigma.
    for (const int64_t n : by_column) {
      EXPECT_NEAR(static_cast<double>(n) / kRows, rate, 5 * std::sqrt(rate * (1 - rate) / kRows));
    }
  }
}

// Two masks of 4096 elements that agree where independent ones would, at rate 1/2.
void expect_independent(const DropoutMask& a, const DropoutMask& b, int64_t sample_b = 0,
                        int64_t position_b = 0, int64_t head_b = 0) {
  const std::vector<double> x = row(a, 0, 0, 0, 4096);
  const std::vector<double> y = row(b, sample_b, position_b, head_b, 4096);
  int equal = 0;
  for (size_t i = 0; i < x.size(); ++i) equal += x[i] == y[i] ? 1 : 0;
  EXPECT_NEAR(equal, 2048, 5 * 32);
}

TEST(Dropout, EveryPartOfTheKeyAndThePlaceMatters) {
  const DropoutMask mask = mask_of(0.5);
  expect_independent(mask, mask_of(0.5, 2));
  expect_independent(mask, mask_of(0.5, 1 + (uint64_t{1} << 32)));
  expect_independent(mask, mask_of(0.5, 1, 2));
  expect_independent(mask, mask_of(0.5, 1, 1, 2));
  expect_independent(mask, mask_of(0.5, 1, 1, 1, DropoutSite::kAttentionOutput));
  expect_independent(mask, mask, 1, 0, 0);
  expect_independent(mask, mask, 0, 1, 0);
  expect_independent(mask, mask, 0, 0, 1);
}

TEST(Dropout, ARowIsTheSameInPiecesAndFromAnyFirstSample) {
  DropoutMask mask = mask_of(0.3);
  const std::vector<double> whole = row(mask, 7, 5, 2, 203);
  std::vector<double> pieces(203, -1);
  for (const int64_t cut : {0, 5, 64, 130}) {
    for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, cut}, {cut, 203}}) {
      for_each_dropout_piece<double>(
          mask, {7, 5, 2}, first, last - first,
          [&, from = first](int64_t done, int64_t count, const double* factors) {
            std::copy_n(factors, count, pieces.begin() + from + done);
          });
    }
    EXPECT_EQ(pieces, whole) << "cut at " << cut;
    std::fill(pieces.begin(), pieces.end(), -1);
  }
  mask.first_sample = 6;
  EXPECT_EQ(row(mask, 1, 5, 2, 203), whole);
}

}  // namespace
}  // namespace tessera
