#include "cost/hardware/linear_fit.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

// From squares towards absolute values: rounds of weights that are one over the error.
constexpr int kRounds = 12;
constexpr double kSmallError = 0.02;
constexpr int kSweeps = 4000;
constexpr double kStill = 1e-12;

double sum_of(std::span<const double> row, std::span<const double> coefficients) {
  double sum = 0;
  for (size_t i = 0; i < row.size(); ++i) sum += row[i] * coefficients[i];
  return sum;
}

double absolute(double x) { return x < 0 ? -x : x; }

// Rows divided by their value, so that the target of each is 1, and terms divided by their largest.
struct Problem {
  std::vector<std::vector<double>> rows;
  std::vector<double> scale;  // by term; 0: the term never occurs
};

Problem scaled(const std::vector<std::vector<double>>& rows, std::span<const double> values) {
  Problem problem{rows, std::vector<double>(rows.front().size(), 0)};
  for (size_t r = 0; r < rows.size(); ++r) {
    TESSERA_CHECK(values[r] > 0 && rows[r].size() == rows.front().size(), "row {} of a fit", r);
    for (size_t i = 0; i < rows[r].size(); ++i) {
      problem.rows[r][i] /= values[r];
      problem.scale[i] = std::max(problem.scale[i], problem.rows[r][i]);
    }
  }
  for (std::vector<double>& row : problem.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (problem.scale[i] > 0) row[i] /= problem.scale[i];
    }
  }
  return problem;
}

// Least squares with weights, one coefficient after the other until none moves.
void descend(const Problem& problem, std::span<const double> weights, std::vector<double>& x) {
  const size_t terms = x.size();
  std::vector<double> gram(terms * terms, 0);
  std::vector<double> target(terms, 0);
  for (size_t r = 0; r < problem.rows.size(); ++r) {
    const std::vector<double>& row = problem.rows[r];
    for (size_t i = 0; i < terms; ++i) {
      target[i] += weights[r] * row[i];
      for (size_t j = 0; j < terms; ++j) gram[i * terms + j] += weights[r] * row[i] * row[j];
    }
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double moved = 0;
    for (size_t i = 0; i < terms; ++i) {
      if (gram[i * terms + i] <= 0) continue;
      double residual = target[i];
      for (size_t j = 0; j < terms; ++j) residual -= gram[i * terms + j] * x[j];
      const double next = std::max(0.0, x[i] + residual / gram[i * terms + i]);
      moved = std::max(moved, absolute(next - x[i]));
      x[i] = next;
    }
    if (moved < kStill) return;
  }
}

}  // namespace

std::vector<double> fit_non_negative(const std::vector<std::vector<double>>& rows,
                                     std::span<const double> values) {
  TESSERA_CHECK(!rows.empty() && rows.size() == values.size(), "{} rows for {} values", rows.size(),
                values.size());
  const Problem problem = scaled(rows, values);
  std::vector<double> x(rows.front().size(), 0);
  std::vector<double> weights(rows.size(), 1);
  for (int round = 0; round < kRounds; ++round) {
    descend(problem, weights, x);
    for (size_t r = 0; r < rows.size(); ++r) {
      weights[r] = 1 / std::max(kSmallError, absolute(sum_of(problem.rows[r], x) - 1));
    }
  }
  for (size_t i = 0; i < x.size(); ++i) x[i] = problem.scale[i] > 0 ? x[i] / problem.scale[i] : 0;
  return x;
}

double mean_relative_error(const std::vector<std::vector<double>>& rows,
                           std::span<const double> values, std::span<const double> coefficients) {
  double sum = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    sum += absolute(sum_of(rows[r], coefficients) / values[r] - 1);
  }
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

}  // namespace tessera
