#include "train/verify/difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace tessera {

double norm(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum);
}

double relative_difference(std::span<const double> a, std::span<const double> b, double floor) {
  TESSERA_CHECK(a.size() == b.size(), "sizes {} and {} differ", a.size(), b.size());
  double sum = 0;
  bool equal = true;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
    equal = equal && a[i] == b[i];
  }
  if (equal) return 0;
  // Squares of tiny differences may vanish, but only equal values are 0 apart.
  return std::max(std::sqrt(sum) / std::max(norm(b), floor), std::numeric_limits<double>::min());
}

bool exceeds(double relative, double tolerance) { return !(relative <= tolerance); }

std::vector<Difference> differences(std::span<const LogicalValues> a,
                                    std::span<const LogicalValues> b) {
  TESSERA_CHECK(a.size() == b.size(), "{} tensors against {}", a.size(), b.size());
  double total = 0;
  for (const LogicalValues& values : b) total += norm(values.values) * norm(values.values);
  const double floor = 1e-6 * std::sqrt(total);
  std::vector<Difference> list;
  for (size_t i = 0; i < a.size(); ++i) {
    TESSERA_CHECK(a[i].tensor.name == b[i].tensor.name, "'{}' against '{}'", a[i].tensor.name,
                  b[i].tensor.name);
    const double least = b[i].tensor.unseen ? std::sqrt(total) : floor;
    list.push_back({a[i].tensor.name, relative_difference(a[i].values, b[i].values, least)});
  }
  return list;
}

}  // namespace tessera
