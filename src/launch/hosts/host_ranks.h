// The ranks of one host in one generation, from their start to what is told of their end.
#pragma once

#include <string>

#include "launch/agent/agent.h"
#include "launch/hosts/control_link.h"
#include "launch/hosts/host_agent.h"

namespace tessera {

// Runs the agent of launch/agent as `agent` says, with the ranks of all hosts as its `ranks`, but
// only those of `here` started. `token` is that of the run; over `link` the coordinator is told how
// they do, and says what is to be done about them.
GenerationReport run_host_ranks(AgentOptions agent, const HostRanks& here, const std::string& token,
                                ControlLink& link);

}  // namespace tessera
