#include "watch/metrics_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

// Numbers of very different sizes in one column: 3.4217, 0.0003, 41.2k.
std::string figure(double value) {
  const double size = std::abs(value);
  if (size != 0 && (size < 0.001 || size >= 1e6)) return fmt::format("{:.3g}", value);
  if (size >= 1000) return with_thousands(std::llround(value));
  return fmt::format("{:.4f}", value);
}

std::string minutes_text(double seconds) {
  if (seconds < 59.5) return fmt::format("{:.1f} s", seconds);
  const double minutes = seconds / 60;
  if (minutes < 60) return fmt::format("{:.1f} min", minutes);
  return fmt::format("{:.1f} h", minutes / 60);
}

std::string last_of(const RunMetrics& run, const std::string& key) {
  const auto found = run.last.find(key);
  return found == run.last.end() || !std::isfinite(found->second) ? "-" : figure(found->second);
}

// JSON has no word for NaN and Infinity.
nlohmann::ordered_json number_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

nlohmann::ordered_json run_json(const RunMetrics& run) {
  nlohmann::ordered_json json = {{"run", run.name},
                                 {"lines", run.steps},
                                 {"last_step", run.last_step},
                                 {"seconds", run.seconds}};
  json["final"] = run.final_value.has_value() ? nlohmann::ordered_json(*run.final_value) : nullptr;
  if (run.lowest.has_value()) {
    json["lowest"] = {{"value", *run.lowest}, {"step", run.lowest_step}};
  }
  if (run.nan_step >= 0) json["nan_step"] = run.nan_step;
  json["growing"] = run.growing;
  json["bad_lines"] = run.num_bad;
  for (const std::string& key : run.keys) json["last"][key] = number_json(run.last.at(key));
  json["values_per_point"] = run.curve.values_per_point();
  json["curve"] = nlohmann::ordered_json::array();
  for (const CurvePoint& point : run.curve.points()) {
    json["curve"].push_back({point.x, point.mean});
  }
  return json;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

std::string csv_number(const MetricsLine& line, const std::string& key) {
  const double* value = line.find(key);
  return value == nullptr ? "" : fmt::format("{}", *value);
}

}  // namespace

std::string metrics_table(const std::vector<RunMetrics>& runs, const MetricsQuery& query,
                          const std::function<std::string(size_t run)>& mark) {
  TextTable table({{"run"},
                   {"step", Align::kRight},
                   {query.key, Align::kRight},
                   {"lowest", Align::kRight},
                   {"at step", Align::kRight},
                   {"tokens/s", Align::kRight},
                   {"time", Align::kRight}});
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunMetrics& run = runs[i];
    const auto value = [](const std::optional<double>& number) {
      return number.has_value() ? figure(*number) : "-";
    };
    table.add_row({mark(i), with_thousands(run.last_step), value(run.final_value),
                   value(run.lowest),
                   run.lowest.has_value() ? with_thousands(run.lowest_step) : "-",
                   last_of(run, "tokens_per_s"), minutes_text(run.seconds)});
  }
  return table.str();
}

std::vector<std::string> metrics_notes(const RunMetrics& run, const std::string& key) {
  std::vector<std::string> notes;
  for (const BadLine& line : run.bad) {
    notes.push_back(fmt::format("{}: line {} is passed over: {}", run.name, line.number, line.why));
  }
  if (run.num_bad > static_cast<int64_t>(run.bad.size())) {
    notes.push_back(
        fmt::format("{}: {} are passed over in all", run.name, count_of(run.num_bad, "line")));
  }
  if (run.nan_step >= 0) {
    notes.push_back(fmt::format("{}: ended at step {} with NaN or Inf", run.name,
                                with_thousands(run.nan_step)));
  }
  if (run.not_finite > 0) {
    notes.push_back(fmt::format("{}: {} of {} are NaN or Inf and not drawn", run.name,
                                count_of(run.not_finite, "value"), key));
  }
  return notes;
}

nlohmann::ordered_json metrics_json(const std::vector<RunMetrics>& runs,
                                    const MetricsQuery& query) {
  nlohmann::ordered_json json = {{"kind", "metrics"},
                                 {"key", query.key},
                                 {"x", name_of(query.x)},
                                 {"smooth", query.smooth},
                                 {"runs", nlohmann::ordered_json::array()}};
  for (const RunMetrics& run : runs) json["runs"].push_back(run_json(run));
  return json;
}

void write_metrics_csv(const std::vector<RunMetrics>& runs, const OpenRun& open,
                       std::ostream& out) {
  std::vector<std::string> keys;
  for (const RunMetrics& run : runs) keys.insert(keys.end(), run.keys.begin(), run.keys.end());
  put_usual_first(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  out << "run";
  for (const std::string& key : keys) out << ',' << csv_field(key);
  out << '\n';
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string name = csv_field(runs[i].name);
    const std::unique_ptr<std::istream> in = open(i);
    (void)for_each_line(*in, [&](const MetricsLine& line) {
      if (!line.event.empty()) return;
      std::string row = name;
      for (const std::string& key : keys) row += ',' + csv_number(line, key);
      out << row << '\n';
    });
  }
}

}  // namespace tessera
