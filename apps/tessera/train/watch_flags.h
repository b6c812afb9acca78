// Flags of `tessera train` for whoever watches the run: how long it may take, a trace of real
// steps, and the peak that MFU is counted by.
#pragma once

#include <string>

#include "cli/command.h"
#include "cli/terminal.h"
#include "spec/run_file/run_source.h"
#include "spec/run_spec.h"

namespace tessera {

struct TrainOptions;
struct TrainSummary;

struct WatchFlags {
  double max_minutes = 0;   // 0: as long as it takes
  std::string trace;        // a file; empty: none
  std::string trace_steps;  // "3..5"; empty: a few after the first
};
void add_watch_flags(CLI::App& app, WatchFlags& flags);

// Before any rank is started. Throws ConfigError.
void check_watch(const WatchFlags& flags, const RunSpec& spec);

// `train.spec` is the run that `source` names; train.device is decided.
void use_watch(const WatchFlags& flags, const RunSource& source, TrainOptions& train);

// Rank 0 calls it at the end: writes the trace.
void write_watched(const WatchFlags& flags, const TrainSummary& summary, Console& console);

}  // namespace tessera
