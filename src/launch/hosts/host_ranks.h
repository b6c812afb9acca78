// The ranks of one host in one generation, from their start to what is told of their end.
#pragma once

#include <string>

#include "launch/agent/agent.h"
#include "launch/hosts/host_agent.h"

namespace tessera {

// Runs the agent of launch/agent as `agent` says, with the ranks of all hosts as its `ranks`, but
// only those of `here` started. `token` is that of the run.
GenerationReport run_host_ranks(AgentOptions agent, const HostRanks& here,
                                const std::string& token);

}  // namespace tessera
