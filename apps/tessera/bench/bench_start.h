// Brings the ranks of one sweep to life in the way of their backend, and hears from them what they
// measured. Ranks that are processes run the same command with --rows: rank 0 then writes a line
// per row, which comes back through a file without a name.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/bench_suite.h"
#include "bench/bench_sweep.h"
#include "cli/terminal.h"
#include "comm/world.h"
#include "launch/environment.h"

namespace tessera {

// A backend that is not in this build or on this machine: ConfigError with what to install.
void require_backend(BenchBackend backend);

struct SweepRun {
  int exit_code = 0;  // other than 0: what failed has been said on the console
  std::vector<BenchRow> rows;
};
// Starts `num_ranks` ranks that measure `op`, and waits for them.
SweepRun run_sweep(const BenchSuite& plan, CollectiveOp op, int num_ranks,
                   const Environment& environment, Console& console);

// As one rank of `world`. `on_row` is called on rank 0.
using RowHandler = std::function<void(CollectiveOp op, const BenchRow& row)>;
void measure_as_rank(const BenchSuite& plan, CommWorld& world, int local_rank,
                     const RowHandler& on_row);

std::string to_line(const BenchRow& row);  // ends with a newline
BenchRow row_from(const std::string& line);

}  // namespace tessera
