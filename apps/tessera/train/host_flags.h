// Flags of `tessera train` for a run whose ranks are on several hosts, each with an agent.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"
#include "launch/environment.h"
#include "spec/run_spec.h"

namespace tessera {

struct TrainCommandOptions;

struct HostFlags {
  int64_t hosts = 0;  // that have ranks; 0: the run has one, or its ranks are started one by one
  int64_t host_rank = -1;  // of this host; from `hosts` on: a spare
  std::string meet;        // ADDRESS:PORT of host 0
  double wait_s = 60;      // for hosts that are missing
  double lease_s = 5;      // without a word until a host is taken for lost

  [[nodiscard]] bool several() const { return hosts > 0; }
};
void add_host_flags(CLI::App& app, HostFlags& flags);

struct MeetingPlace {
  std::string host;
  int port = 0;
};
// Throws ConfigError where it is no ADDRESS:PORT.
MeetingPlace meeting_place(const HostFlags& flags);

// Throws ConfigError for flags that do not go together, and without a token.
void check_hosts(const TrainCommandOptions& options, const LaunchContext& context,
                 const Environment& environment);
std::string run_token(const Environment& environment);
// Throws ConfigError unless each host can have as many of the run's ranks, also where their number
// changes.
void check_ranks_of_hosts(const TrainCommandOptions& options, const RunSpec& spec);

// With several hosts srun starts agents, not ranks.
LaunchContext launch_on_hosts(const HostFlags& flags, const LaunchContext& context);

}  // namespace tessera
