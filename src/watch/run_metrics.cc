#include "watch/run_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/error.h"
#include "watch/bounded_lines.h"

namespace tessera {
namespace {

constexpr size_t kMostBadLines = 3;  // that are named
constexpr size_t kMostKeys = 1000;   // a foreign file may have another key in every line
constexpr std::array<std::string_view, 13> kUsual = {
    "step", "time",       "loss",         "valid_loss",   "valid_perplexity",
    "lr",   "grad_norm",  "tokens",       "tokens_per_s", "step_ms",
    "mfu",  "loss_scale", "skipped_steps"};

class Reader {
 public:
  Reader(const MetricsQuery& query, RunMetrics& run)
      : query_(query), run_(run), smoother_(query.smooth) {}

  void take(const MetricsLine& line) {
    if (line.event == "nan") run_.nan_step = line.step;
    if (!line.event.empty()) return;
    ++run_.steps;
    run_.last_step = line.step;
    for (const auto& [key, value] : line.values) {
      if (keys_.size() < kMostKeys || keys_.contains(key)) {
        keys_.insert(key);
        run_.last[key] = value;
      }
    }
    if (const double* time = line.find("time"); time != nullptr && std::isfinite(*time)) {
      if (!start_.has_value()) start_ = *time;
      run_.seconds = std::max(run_.seconds, *time - *start_);
    }
    if (const double* value = line.find(query_.key)) take_value(line, *value);
  }

  void finish() {
    run_.keys.assign(keys_.begin(), keys_.end());
    put_usual_first(run_.keys);
  }

 private:
  void take_value(const MetricsLine& line, double value) {
    if (!std::isfinite(value)) {
      ++run_.not_finite;
      return;
    }
    run_.final_value = value;
    if (!run_.lowest.has_value() || value < *run_.lowest) {
      run_.lowest = value;
      run_.lowest_step = line.step;
    }
    if (const auto x = x_of(line)) run_.curve.add(*x, smoother_.next(value));
  }

  [[nodiscard]] std::optional<double> x_of(const MetricsLine& line) const {
    switch (query_.x) {
      case CurveX::kStep:
        return static_cast<double>(line.step);
      case CurveX::kTokens: {
        const double* tokens = line.find("tokens");
        if (tokens == nullptr || !std::isfinite(*tokens)) return std::nullopt;
        return *tokens;
      }
      case CurveX::kMinutes:
        if (line.find("time") == nullptr || !start_.has_value()) return std::nullopt;
        return run_.seconds / 60;
    }
    return std::nullopt;
  }

  const MetricsQuery& query_;
  RunMetrics& run_;
  Smoother smoother_;
  std::set<std::string> keys_;
  std::optional<double> start_;
};

}  // namespace

std::string_view name_of(CurveX x) {
  switch (x) {
    case CurveX::kStep:
      return "step";
    case CurveX::kTokens:
      return "tokens";
    case CurveX::kMinutes:
      return "minutes";
  }
  return "";
}

void put_usual_first(std::vector<std::string>& keys) {
  std::sort(keys.begin(), keys.end());
  const auto place = [](const std::string& key) {
    return std::find(kUsual.begin(), kUsual.end(), key) - kUsual.begin();
  };
  std::stable_sort(keys.begin(), keys.end(),
                   [&](const std::string& a, const std::string& b) { return place(a) < place(b); });
}

MetricsLines for_each_line(std::istream& in, const std::function<void(const MetricsLine&)>& f) {
  MetricsLines seen;
  BoundedLines lines(in);
  while (lines.next()) {
    std::string why;
    if (lines.too_long()) {
      why = "it is longer than 1 MiB";
    } else if (lines.text().empty()) {
      continue;
    } else {
      try {
        f(parse_metrics_line(lines.text()));
        continue;
      } catch (const ConfigError& error) {
        why = error.what();
      }
    }
    // A run that goes on writes its last line at this moment.
    if (!lines.ended() && !lines.too_long()) {
      seen.growing = true;
      break;
    }
    ++seen.num_bad;
    if (seen.bad.size() < kMostBadLines) seen.bad.push_back({lines.number(), why});
  }
  return seen;
}

RunMetrics read_metrics(std::istream& in, const std::string& name, const MetricsQuery& query) {
  RunMetrics run;
  run.name = name;
  run.curve = Curve(query.most_points);
  Reader reader(query, run);
  MetricsLines lines = for_each_line(in, [&](const MetricsLine& line) { reader.take(line); });
  reader.finish();
  run.bad = std::move(lines.bad);
  run.num_bad = lines.num_bad;
  run.growing = lines.growing;
  return run;
}

}  // namespace tessera
