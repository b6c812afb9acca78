// A run whose ranks are on several hosts: the agent of this one, and on host 0 the coordinator.
#pragma once

#include <string>

#include "cli/terminal.h"
#include "launch/agent/agent.h"
#include "spec/run_spec.h"
#include "train/train_command.h"

namespace tessera {

// `agent`: what the ranks of this host are. On host 0 the run directory in `spec` is claimed.
// Returns the exit code of the run.
int run_on_hosts(const TrainCommandOptions& options, const RunSpec& spec, AgentOptions agent,
                 const std::string& token, Console& console);

}  // namespace tessera
