// What metrics.jsonl says about a run: one key as a curve, and the figures of a table. Also of a
// run that is still going on, and of a file of any size. Pure: the stream is an argument.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watch/curve.h"
#include "watch/metrics_line.h"

namespace tessera {

enum class CurveX : uint8_t { kStep, kTokens, kMinutes };
std::string_view name_of(CurveX x);  // "step", "tokens", "minutes"

struct MetricsQuery {
  std::string key = "loss";
  CurveX x = CurveX::kStep;
  double smooth = 0;           // weight of the past, 0 to below 1
  int64_t most_points = 4096;  // of the curve
};

struct BadLine {
  int64_t number = 0;
  std::string why;
};

struct RunMetrics {
  std::string name;   // how people called it
  int64_t steps = 0;  // lines of steps
  int64_t last_step = 0;
  double seconds = 0;                  // from the first line to the last
  std::vector<std::string> keys;       // that some line has: the usual ones first, then by name
  std::map<std::string, double> last;  // by key: the last number
  Curve curve;                         // of the key that was asked for, smoothed
  std::optional<double> final_value;   // of that key as it was written, the last finite one
  std::optional<double> lowest;        //
  int64_t lowest_step = 0;
  int64_t not_finite = 0;    // values of that key
  int64_t nan_step = -1;     // where the run ended with NaN; -1: it did not
  std::vector<BadLine> bad;  // the first few lines that are no metrics
  int64_t num_bad = 0;       // all of them
  bool growing = false;      // the last line is not whole yet
};

// Calls `f` with every line of metrics, in order. The last line may be half: it is passed over, and
// `growing` of what is returned says so. Lines that are no metrics are counted and named.
struct MetricsLines {
  std::vector<BadLine> bad;
  int64_t num_bad = 0;
  bool growing = false;
};
MetricsLines for_each_line(std::istream& in, const std::function<void(const MetricsLine&)>& f);

RunMetrics read_metrics(std::istream& in, const std::string& name, const MetricsQuery& query);

// Keys in the order in which people want them: step, time, loss, ..., then by name.
void put_usual_first(std::vector<std::string>& keys);

}  // namespace tessera
