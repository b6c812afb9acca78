#include "train/host_flags.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "launch/rendezvous/socket.h"
#include "train/elastic.h"
#include "train/train_command.h"

namespace tessera {
namespace {

constexpr int kMaxPort = 65535;

void require_hosts(const HostFlags& flags) {
  const HostFlags usual;
  const bool any = flags.host_rank >= 0 || !flags.meet.empty() || flags.wait_s != usual.wait_s ||
                   flags.lease_s != usual.lease_s;
  require_config(!any,
                 "--host-rank, --meet, --host-wait and --host-lease are for a run on several "
                 "hosts: say on how many with --hosts N");
}

}  // namespace

void add_host_flags(CLI::App& app, HostFlags& flags) {
  add_whole(app, "--hosts", flags.hosts, 0,
            "hosts that have the ranks, as many each; start this command on every one of them "
            "(default 0: this one has all)");
  add_whole(app, "--host-rank", flags.host_rank, 0,
            "with --hosts: which one this is, from 0 on; hosts from N on are spares");
  add_text(app, "--meet", flags.meet, "ADDRESS:PORT",
           "with --hosts: where host 0 waits for the others; needs TESSERA_RUN_TOKEN, the same on "
           "all");
  add_real(app, "--host-wait", flags.wait_s, 0,
           "with --hosts: seconds to wait for hosts that are missing (default 60)");
  add_real(app, "--host-lease", flags.lease_s, 0.1,
           "with --hosts: seconds without a word until a host is taken for lost (default 5)");
}

MeetingPlace meeting_place(const HostFlags& flags) {
  const size_t colon = flags.meet.rfind(':');
  int port = 0;
  const char* const end = flags.meet.data() + flags.meet.size();
  const bool read = colon != std::string::npos && colon > 0 &&
                    std::from_chars(flags.meet.data() + colon + 1, end, port).ptr == end &&
                    port >= 1 && port <= kMaxPort;
  require_config(read,
                 "--meet is {}: give the address and a free port of host 0, as in "
                 "--meet 10.0.0.5:29500",
                 in_quotes(flags.meet));
  std::string host = flags.meet.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return {host, port};
}

void check_hosts(const TrainCommandOptions& options, const LaunchContext& context,
                 const Environment& environment) {
  const HostFlags& flags = options.hosts;
  if (!flags.several()) return require_hosts(flags);
  require_config(flags.hosts >= 2, "--hosts {}: a run on one host needs no --hosts", flags.hosts);
  require_config(flags.host_rank >= 0 && !flags.meet.empty(),
                 "--hosts {}: say which host this is (--host-rank 0 to {}) and where host 0 waits "
                 "(--meet ADDRESS:PORT)",
                 flags.hosts, flags.hosts - 1);
  require_config(!options.threads && options.backend == "auto",
                 "--hosts {}: ranks of several hosts are processes that are connected by TCP: "
                 "leave out {}",
                 flags.hosts, options.threads ? "--threads" : "--backend " + options.backend);
  require_config(options.spares == 0,
                 "--spares {}: with --hosts a spare is a host: start this command on one more, "
                 "with --host-rank {}",
                 options.spares, flags.hosts);
  const bool by_us = context.launcher == Launcher::kNone || context.launcher == Launcher::kAgent ||
                     context.launcher == Launcher::kSlurm;
  require_config(by_us,
                 "--hosts {}: {} started this process as rank {} of {}, and with --hosts tessera "
                 "starts the ranks: start it once on every host, or leave out --hosts",
                 flags.hosts, name_of(context.launcher), context.rank, context.size);
  const MeetingPlace place = meeting_place(flags);
  require_config(!run_token(environment).empty(),
                 "--meet {}: {} can come there, and there is no run token: give all hosts the same "
                 "secret, such as export TESSERA_RUN_TOKEN=$(openssl rand -hex 16) "
                 "(docs/multi-machine.md)",
                 flags.meet, is_only_here(place.host) ? "other users of this host" : "other hosts");
}

void check_ranks_of_hosts(const TrainCommandOptions& options, const RunSpec& spec) {
  const HostFlags& flags = options.hosts;
  if (!flags.several()) return;
  constexpr int64_t kMostRanks = 64;  // that the memory of an agent has a place for
  const int64_t world = spec.parallel.world();
  require_config(world % flags.hosts == 0,
                 "--hosts {}: the mesh has {} ranks, and every host has as many: use a number of "
                 "hosts that divides it",
                 flags.hosts, world);
  const ElasticBounds bounds = parse_elastic(options.elastic);
  const int64_t replicas = std::max(bounds.most, spec.parallel.dp);
  const int64_t most = world / spec.parallel.dp * replicas;
  require_config(most <= kMostRanks,
                 "--hosts {}: the mesh has {} ranks, and {} are the most: start more with mpirun "
                 "(docs/multi-machine.md)",
                 flags.hosts, most, kMostRanks);
  if (bounds.on()) (void)host_sizes(bounds, spec, static_cast<int>(flags.hosts));
}

std::string run_token(const Environment& environment) {
  const auto found = environment.find(agent_variable::kToken);
  return found == environment.end() ? "" : found->second;
}

LaunchContext launch_on_hosts(const HostFlags& flags, const LaunchContext& context) {
  return flags.several() && context.launcher == Launcher::kSlurm ? LaunchContext() : context;
}

}  // namespace tessera
