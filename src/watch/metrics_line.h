// One line of metrics.jsonl (docs/run-directory.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

struct MetricsLine {
  std::string event;  // "nan"; empty: a step
  int64_t step = 0;
  // Numbers, by name and in any order; those inside an object are named "exposed_ms.dp all_reduce".
  // Lists and texts are left out. "NaN" and "Infinity" are the numbers they stand for.
  std::vector<std::pair<std::string, double>> values;

  [[nodiscard]] const double* find(std::string_view key) const;  // null: the line has none
};

// Throws ConfigError that says why it is none: no JSON object, or no step.
MetricsLine parse_metrics_line(std::string_view text);

}  // namespace tessera
