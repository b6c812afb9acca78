// `tessera bench predict`: predicted step times beside measured ones.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"
#include "cost/hardware/cluster.h"

namespace tessera {

struct BenchPredictOptions {
  std::string list;     // file with one run per line
  std::string cluster;  // file that calibrate wrote
  std::string engine;   // whose closed forms are compared as well; empty: all that are known
  int64_t steps = 10, warmup = 3;
  bool serve = false;  // the list has models to serve
  bool json = false;
};
// The cluster file, which says what was measured. Throws ConfigError where it does not.
Cluster measured_cluster(const BenchPredictOptions& options);
Command add_bench_predict(CLI::App& bench);
int run_bench_predict(const BenchPredictOptions& options, Console& console);

}  // namespace tessera
