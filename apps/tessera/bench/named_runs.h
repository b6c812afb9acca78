// Lists of runs that benches go through.
#pragma once

#include <string>
#include <vector>

#include "spec/run_file/run_source.h"

namespace tessera {

struct NamedRun {
  std::string name;
  RunSource source;
};

// "name: key=value key=value"; empty lines and what follows a # are skipped. Throws ConfigError
// with the line where one is neither, and where there is no run.
std::vector<NamedRun> read_named_runs(const std::string& file);

}  // namespace tessera
