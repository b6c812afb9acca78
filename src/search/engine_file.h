// From a strategy of the search to a run file that `tessera train` takes as it is, and what the
// Programs of that file need: the search's own memory is that of the cost model, whose engine keeps
// other things.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compile/scale/scale_plan.h"
#include "cost/step/strategy.h"
#include "spec/file_reader.h"
#include "spec/run_spec.h"

namespace tessera {

struct EngineFile {
  std::string toml = {};   // empty where the engine cannot run it
  std::string lacks = {};  // what the engine does not have; empty where it can
  int64_t peak_bytes = 0;  // of its fullest rank, exactly; 0 where there is no Program
  // Beside --model and --cluster, of `tessera plan`; empty where they cannot say the strategy.
  std::string plan_flags = {};
  double plan_step_s = 0;  // that `tessera plan` gives for them
};

// What the files refer to: names as the user gave them, or files.
struct EngineNames {
  ModelSpec model;      // its preset is the name
  std::string cluster;  // empty: files do not say it
};

// The text has been read back, and its Programs fit the devices. `planner` keeps what plans share.
EngineFile engine_file(const EngineNames& names, const Workload& workload, const Strategy& strategy,
                       const FileReader& read, ScalePlanner& planner);

// The file of each strategy. The same for any number of threads.
std::vector<EngineFile> engine_files(const EngineNames& names, const Workload& workload,
                                     std::span<const Strategy> strategies, const FileReader& read,
                                     int threads);

}  // namespace tessera
