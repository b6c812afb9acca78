#include "cost/hardware/linear_fit.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

std::vector<std::vector<double>> lines() {
  std::vector<std::vector<double>> rows;
  for (double bytes = 1e3; bytes < 1e8; bytes *= 3) rows.push_back({1, bytes});
  return rows;
}

std::vector<double> values_of(const std::vector<std::vector<double>>& rows, double call,
                              double per_byte) {
  std::vector<double> values;
  for (const auto& row : rows) values.push_back(call + per_byte * row[1]);
  return values;
}

TEST(LinearFit, FindsTheTermsThatMadeTheValues) {
  const auto rows = lines();
  const auto values = values_of(rows, 2e-6, 1.5e-10);
  const std::vector<double> fit = fit_non_negative(rows, values);
  EXPECT_NEAR(fit[0], 2e-6, 2e-9);
  EXPECT_NEAR(fit[1], 1.5e-10, 1.5e-13);
  EXPECT_LT(mean_relative_error(rows, values, fit), 1e-3);
}

TEST(LinearFit, OneDisturbedValuePullsLittle) {
  const auto rows = lines();
  auto values = values_of(rows, 2e-6, 1.5e-10);
  values[4] *= 5;
  const std::vector<double> fit = fit_non_negative(rows, values);
  EXPECT_NEAR(fit[0], 2e-6, 2e-7);
  EXPECT_NEAR(fit[1], 1.5e-10, 1.5e-11);
  EXPECT_GT(mean_relative_error(rows, values, fit), 0.01);
}

TEST(LinearFit, GivesNoTermLessThanNothing) {
  // Falls with its term: the best that is allowed is a constant.
  const std::vector<std::vector<double>> rows = {{1, 1}, {1, 2}, {1, 3}};
  const std::vector<double> values = {3, 2, 1.5};
  const std::vector<double> fit = fit_non_negative(rows, values);
  EXPECT_GT(fit[0], 1.4);
  EXPECT_EQ(fit[1], 0);
}

TEST(LinearFit, GivesNothingToATermThatNeverOccurs) {
  const std::vector<double> values = {1, 2};
  const std::vector<double> fit = fit_non_negative({{1, 0}, {2, 0}}, values);
  EXPECT_NEAR(fit[0], 1, 1e-9);
  EXPECT_EQ(fit[1], 0);
}

}  // namespace
}  // namespace tessera
