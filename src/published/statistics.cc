#include "published/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace tessera {
namespace {

std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) {
    return values[i] != values[j] ? values[i] < values[j] : i < j;
  });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double mean = static_cast<double>(begin + end - 1) / 2;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = mean;
    begin = end;
  }
  return ranks;
}

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

double spearman(std::span<const double> a, std::span<const double> b) {
  TESSERA_CHECK(a.size() == b.size(), "{} and {} values", a.size(), b.size());
  if (a.size() < 2) return 1;
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean_x = mean_of(x), mean_y = mean_of(y);
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  // All values of one list are equal: they agree only with a list of equals.
  if (xx == 0 || yy == 0) return xx == yy ? 1 : 0;
  return xy / std::sqrt(xx * yy);
}

ErrorSummary summarize(std::span<const double> predicted, std::span<const double> measured) {
  ErrorSummary summary;
  summary.n = static_cast<int>(measured.size());
  summary.spearman = spearman(predicted, measured);
  if (summary.n == 0) return summary;
  for (size_t i = 0; i < measured.size(); ++i) {
    const double error = 100 * (predicted[i] / measured[i] - 1);
    summary.mean_abs_pct += std::abs(error);
    summary.bias_pct += error;
    if (std::abs(error) > std::abs(summary.worst_pct)) summary.worst_pct = error;
  }
  summary.mean_abs_pct /= summary.n;
  summary.bias_pct /= summary.n;
  return summary;
}

}  // namespace tessera
