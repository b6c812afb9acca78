// From a strategy of the search to a run file that `tessera train` takes as it is, and what the
// Programs of that file need: the search's own memory is that of the cost model, whose engine keeps
// other things.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cost/step/strategy.h"
#include "spec/file_reader.h"
#include "spec/run_spec.h"

namespace tessera {

struct EngineFile {
  std::string toml;        // empty where the engine cannot run it
  std::string lacks;       // what the engine does not have; empty where it can
  int64_t peak_bytes = 0;  // of its fullest rank, exactly; 0 where there is no Program
};

// The file of each strategy. `model` is what the user named: the file refers to the same preset or
// file. The text has been read back, and its Programs fit the devices. The same for any number of
// threads.
std::vector<EngineFile> engine_files(const ModelSpec& model, const Workload& workload,
                                     std::span<const Strategy> strategies, const FileReader& read,
                                     int threads);

}  // namespace tessera
