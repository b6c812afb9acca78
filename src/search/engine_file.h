// From a strategy of the search to a run file that `tessera train` takes as it is.
#pragma once

#include <string>

#include "cost/strategy.h"
#include "spec/file_reader.h"
#include "spec/run_spec.h"

namespace tessera {

struct EngineFile {
  std::string toml;   // empty where the engine cannot run it
  std::string lacks;  // what the engine does not have; empty where it can
};

// `model` is what the user named: the file refers to the same preset or file. The text has been
// read back and checked.
EngineFile engine_file(const ModelSpec& model, const Workload& workload, const Strategy& strategy,
                       const FileReader& read);

}  // namespace tessera
