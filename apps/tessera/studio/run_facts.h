// What is to be said of a run at a glance: how it stands, how far it is, what was planned.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "studio/run_table.h"

namespace tessera {

// What a run's files say about its end.
struct RunTraces {
  std::optional<int64_t> steps_in_summary;  // there is a summary.json
  std::optional<int64_t> planned_steps;
  std::optional<int64_t> nan_step;  // its last line says so
  bool locked = false;              // somebody holds run.lock
  bool lock_left = false;           // run.lock is there, and nobody holds it
  bool described = false;           // there is a resolved.json: a run was started here
  double age_s = 0;                 // since the metrics grew
  double step_ms = 0;               // of the last line; 0: not known
};

struct RunStanding {
  std::string state;   // "running", "finished", "failed", "stale"
  std::string reason;  // a sentence, or nothing
};
RunStanding state_of(const RunTraces& traces);

// The run's object in `GET api/runs`. Looks at the files again when they may have changed, at most
// once a second for a run however many ask. Thread-safe.
class RunFacts {
 public:
  [[nodiscard]] nlohmann::ordered_json of(const RunEntry& run);

 private:
  struct Known {
    std::chrono::steady_clock::time_point at;
    nlohmann::ordered_json json;
  };
  std::mutex mutex_;
  std::map<std::string, Known> known_;  // by path
};

}  // namespace tessera
