// What `tessera search` shows: the best plans with reasons, what was left out and why, what would
// help; as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "search/deadline.h"
#include "search/engine_file.h"
#include "search/search.h"
#include "search/sensitivity.h"
#include "search/simulated_strategy.h"

namespace tessera {

struct ReportOptions {
  int64_t top = 20;
  bool sensitivity = true;
  std::string cluster = "";  // as the user named it, for run files and next steps
  std::string engine = "";   // the same; empty: ours
  std::string command = "";  // that asks for this report
};

struct RankedStrategy {
  size_t number = 0;  // of all that were simulated, from 1
  SimulatedStrategy plan;
  std::string why;  // better than its neighbours
  EngineFile file;
  [[nodiscard]] bool can_run() const { return file.lacks.empty(); }  // `tessera train`
};

// The fastest plan of so many devices.
struct DeviceCount {
  int64_t devices = 0;
  double step_s = 0;
  [[nodiscard]] double device_seconds() const { return step_s * static_cast<double>(devices); }
};

struct SearchReport {
  Workload workload;  // of a search for the lowest cost: that of the best plan
  ModelSpec model;
  Objective objective = Objective::kTime;
  SearchOutcome outcome;
  int64_t top = 0;  // plans that were asked for
  int64_t limit_bytes = 0;
  int64_t simulated = 0;
  std::vector<RankedStrategy> plans;      // best first
  std::vector<SimulatedStrategy> others;  // that follow them
  // The best plan that `tessera train` can run, where none of `plans` is one.
  std::optional<RankedStrategy> runnable;
  std::vector<std::string> to_run;       // where there is none: what would give one, "128 devices"
  std::vector<SimulatedStrategy> front;  // simulated; fastest first
  std::vector<DeviceCount> counts;  // of a search for the lowest cost: the cluster and its parts
  std::optional<DeadlineAnswer> deadline;  // where one was asked for
  std::vector<Sensitivity> sensitivities;
  std::vector<std::string> remedies;     // where nothing fits
  std::string cluster, engine, command;  // of ReportOptions
  bool writes_files = false;  // run files are written beside it, so that it need not say how

  // None of the shown plans can be run, though there are Programs for the model: others may fit.
  [[nodiscard]] bool lacks_room() const;
};

// Searches, simulates the kept plans, ranks them again and explains them. `read` opens model files.
SearchReport search_report(const SearchRequest& request, const ModelSpec& model,
                           const ReportOptions& options, const FileReader& read,
                           const OnProgress& progress);

std::string to_text(const SearchReport& report);
nlohmann::ordered_json to_json(const SearchReport& report);

}  // namespace tessera
