// `tessera bench simulator`: how many pipeline schedules the simulator plays per second.
#pragma once

#include <cstdint>

#include "cli/command.h"

namespace tessera {

struct BenchSimulatorOptions {
  int64_t threads = 2;
  double seconds = 1;  // of every measurement
  bool json = false;
};
Command add_bench_simulator(CLI::App& bench);
int run_bench_simulator(const BenchSimulatorOptions& options, Console& console);

}  // namespace tessera
