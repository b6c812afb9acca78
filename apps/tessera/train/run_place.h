// Where a run goes, on its command line and in its last lines.
#pragma once

#include <string>

#include "cli/terminal.h"
#include "launch/environment.h"
#include "train/directory/run_claim.h"
#include "train/session/session.h"
#include "train/train_command.h"

namespace tessera {

RunDirectoryRequest directory_request(const TrainCommandOptions& options, const RunSpec& spec);

// Claims the directory and puts its name into `spec`; says so where the name is not the first
// choice.
ClaimedDirectory claim_directory(const TrainCommandOptions& options, RunSpec& spec,
                                 Console& console);

// The agent has claimed the directory for its ranks, and tells them its name.
void tell_run_directory(const RunSpec& spec, Environment& environment);
void hear_run_directory(const Environment& environment, RunSpec& spec);

// "runs/mine: loss 3.1071 after 60 steps, 20 s" and the command that uses the weights.
std::string last_lines(const TrainSummary& summary);

}  // namespace tessera
