// The agent of one of several hosts: holds a lease from the coordinator, starts the ranks of this
// host when told, reports how they end, and ends them by itself when it hears nothing any more.
//
// The agent of host 0 runs the coordinator as well (launch/hosts/coordinator_server.h), as a
// process of its own that it starts again where it is lost: agents come back to it, and ranks go on
// meanwhile. Every wait is bounded: an agent that finds no coordinator for `host_wait` ends with
// exit code 75.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "launch/hosts/control_link.h"
#include "launch/hosts/host_messages.h"
#include "launch/unique_fd.h"

namespace tessera {

// What the ranks of this host are to be.
struct HostRanks {
  uint64_t run = 0;
  uint64_t generation = 0;
  GenerationStart start;
  std::vector<int> listeners = {};  // sockets on which they listen, in the order of the ranks
};

struct HostAgentOptions {
  int host = 0;
  std::string meet_host;  // where the coordinator listens
  int meet_port = 0;
  std::string token;
  std::chrono::milliseconds host_wait{60'000};

  // Starts the ranks and waits for their end, in a process of its own.
  std::function<GenerationReport(const HostRanks& ranks, ControlLink& link)> run_ranks;
  // Before a generation with another number of ranks than this agent's last one. Null: nothing.
  std::function<void()> on_resize = nullptr;
  bool takes_room = false;  // SIGUSR2 says that lost places can be filled again
  // Host 0: the coordinator, in a process of its own; returns the exit code of the run. Null
  // elsewhere.
  std::function<int(const UniqueFd& listener)> coordinate = nullptr;

  std::function<void(const std::string&)> on_note = nullptr;     // for people; null: dropped
  std::function<void(const std::string&)> on_failure = nullptr;  // the one message of a failed run
};

// Returns the exit code of the run. Throws Error where it cannot begin. Call it from the main
// thread of a process without others, as run_agent.
int run_host_agent(const HostAgentOptions& options);

}  // namespace tessera
