// `tessera data samples`.
#pragma once

#include <string>

#include "cli/command.h"
#include "spec/run_file/run_source.h"

namespace tessera {

struct DataSamplesOptions {
  RunSource source;
  std::string steps = "1..5";
  std::string out;  // empty: none is written
  bool json = false;
};
// Under `tessera data`.
Command add_data_samples(CLI::App& data);
int run_data_samples(const DataSamplesOptions& options, Console& console);

}  // namespace tessera
