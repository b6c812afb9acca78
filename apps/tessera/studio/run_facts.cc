#include "studio/run_facts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "studio/run_files.h"
#include "studio/run_journal.h"
#include "train/directory/run_lock.h"
#include "watch/metrics_line.h"

namespace tessera {
namespace {

using nlohmann::ordered_json;

constexpr std::chrono::milliseconds kFresh{1000};
constexpr double kSilenceS = 10;    // of a run whose steps are quick
constexpr double kSilentSteps = 5;  // of one whose steps are not
constexpr int64_t kMostJsonBytes = int64_t{16} << 20;
constexpr int64_t kTailBytes = int64_t{64} << 10, kLongTailBytes = int64_t{2} << 20;
constexpr size_t kMostKnown = 4000;

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Null where the file is not there, not whole, or too large to be read for a glance.
nlohmann::json json_file(const std::string& folder, const std::string& name) {
  try {
    const auto text = read_run_file(folder, name, kMostJsonBytes);
    return text.has_value() ? parse_json(*text, name) : nlohmann::json();
  } catch (const Error&) {
    return {};
  }
}

// A member at `path`, or null: a foreign file may have anything there.
nlohmann::json at(const nlohmann::json& json, const char* path) {
  const nlohmann::json::json_pointer pointer(path);
  try {
    return json.contains(pointer) ? json.at(pointer) : nlohmann::json();
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

std::optional<int64_t> whole_at(const nlohmann::json& json, const char* path) {
  const nlohmann::json value = at(json, path);
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<int64_t>();
}

// The last lines of the metrics that matter.
struct LastLines {
  std::optional<MetricsLine> step, event;
};

// Lines that are whole, the last one first.
LastLines last_lines(const RunFile& file) {
  LastLines found;
  for (const int64_t most : {kTailBytes, kLongTailBytes}) {
    const int64_t from = std::max<int64_t>(0, file.state().size - most);
    const std::string tail = file.read(from, most);
    size_t end = tail.rfind('\n');
    while (end != std::string::npos && end > 0 && !found.step.has_value()) {
      const size_t before = tail.rfind('\n', end - 1);
      if (before == std::string::npos && from > 0) break;  // its start is not here
      const size_t begin = before == std::string::npos ? 0 : before + 1;
      try {
        MetricsLine line = parse_metrics_line(std::string_view(tail).substr(begin, end - begin));
        auto& place = line.event.empty() ? found.step : found.event;
        if (!place.has_value()) place = std::move(line);
      } catch (const ConfigError&) {
        // Not a line of metrics: those before it count.
      }
      end = before;
    }
    if (found.step.has_value() || from == 0) break;
  }
  return found;
}

std::optional<double> started_at(const RunFile& file) {
  const std::string start = file.read(0, kTailBytes);
  const size_t end = start.find('\n');
  if (end == std::string::npos) return std::nullopt;
  try {
    const MetricsLine line = parse_metrics_line(std::string_view(start).substr(0, end));
    if (const double* time = line.find("time")) return *time;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
  return std::nullopt;
}

ordered_json plan_json(const std::string& path, const nlohmann::json& resolved) {
  const nlohmann::json plan = json_file(path, "plan.json");
  if (!plan.is_object()) return nullptr;
  nlohmann::json model = at(resolved, "/model/preset");
  if (!model.is_string() || model == "") model = at(resolved, "/model/hf");
  if (!model.is_string() || model == "") model = at(resolved, "/model/family");
  ordered_json json = {{"model", model}};
  for (const char* key :
       {"parameters", "world", "mesh", "dtype", "device", "peak_bytes", "limit_bytes"}) {
    json[key] = at(plan, fmt::format("/{}", key).c_str());
  }
  return json;
}

bool has(const std::string& path, const char* name) { return RunFile(path, name).valid(); }

ordered_json look_at(const RunEntry& run) {
  const nlohmann::json resolved = json_file(run.path, "resolved.json");
  const nlohmann::json summary = json_file(run.path, "summary.json");
  const RunFile metrics(run.path, "metrics.jsonl");
  LastLines last;
  std::optional<double> started;
  RunTraces traces;
  if (metrics.valid()) {
    last = last_lines(metrics);
    started = started_at(metrics);
    traces.age_s = std::max(0.0, unix_now() - metrics.state().changed);
  }
  if (summary.is_object()) traces.steps_in_summary = whole_at(summary, "/steps").value_or(0);
  traces.planned_steps = whole_at(resolved, "/train/steps");
  const bool event_is_last =
      last.event.has_value() && (!last.step.has_value() || last.event->step >= last.step->step);
  if (event_is_last && last.event->event == "nan") traces.nan_step = last.event->step;
  traces.locked = user_of_run_directory(run.path).has_value();
  traces.lock_left = !traces.locked && has(run.path, "run.lock");
  traces.described = resolved.is_object();
  if (last.step.has_value()) {
    if (const double* step_ms = last.step->find("step_ms")) traces.step_ms = *step_ms;
  }
  const RunStanding standing = state_of(traces);
  const auto or_null = [](const auto& value) {
    return value.has_value() ? ordered_json(*value) : ordered_json(nullptr);
  };
  return {{"id", run.id},
          {"name", run.name},
          {"folder", run.folder},
          {"state", standing.state},
          {"reason", standing.reason},
          {"last_step", last.step.has_value() ? ordered_json(last.step->step) : ordered_json()},
          {"steps", or_null(traces.planned_steps)},
          {"started", or_null(started)},
          {"updated", metrics.valid() ? ordered_json(metrics.state().changed) : ordered_json()},
          {"has",
           {{"plan", has(run.path, "plan.json")},
            {"summary", summary.is_object()},
            {"config", has(run.path, "config.toml")},
            {"resolved", traces.described},
            {"metrics", metrics.valid()},
            {"journal", has(run.path, kJournalFile)}}},
          {"plan", plan_json(run.path, resolved)}};
}

}  // namespace

RunStanding state_of(const RunTraces& traces) {
  if (traces.steps_in_summary.has_value()) {
    const int64_t done = *traces.steps_in_summary;
    if (traces.planned_steps.has_value() && done < *traces.planned_steps) {
      return {"finished", fmt::format("stopped after {} of {} steps", with_thousands(done),
                                      with_thousands(*traces.planned_steps))};
    }
    return {"finished", ""};
  }
  if (traces.nan_step.has_value()) {
    return {"failed", fmt::format("NaN or Inf at step {}", with_thousands(*traces.nan_step))};
  }
  if (traces.lock_left) return {"failed", "its process is gone and left no summary.json"};
  const double patience_s = std::max(kSilenceS, kSilentSteps * traces.step_ms / 1e3);
  if (traces.age_s <= patience_s) return {"running", ""};
  const std::string silence = fmt::format("no line for {:.0f} s", traces.age_s);
  if (traces.locked) return {"stale", "its process is there, but wrote " + silence};
  if (traces.described) return {"failed", "it ended without a summary.json; " + silence};
  return {"stale", silence + ", and nothing says that it ended"};
}

ordered_json RunFacts::of(const RunEntry& run) {
  const auto now = std::chrono::steady_clock::now();
  ordered_json json;
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(run.path);
    if (known != known_.end() && now - known->second.at < kFresh) json = known->second.json;
  }
  if (json.is_null()) {
    json = look_at(run);
    const std::lock_guard lock(mutex_);
    if (known_.size() >= kMostKnown) known_.clear();
    known_[run.path] = {now, json};
  }
  json["id"] = run.id;
  const ordered_json& updated = json["updated"];
  json["age_s"] = updated.is_null()
                      ? ordered_json()
                      : ordered_json(std::max(0.0, unix_now() - updated.get<double>()));
  return json;
}

}  // namespace tessera
