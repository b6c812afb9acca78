#include "train/host_run.h"

#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/text/printable.h"
#include "launch/hosts/coordinator_journal.h"
#include "launch/hosts/coordinator_server.h"
#include "launch/hosts/host_agent.h"
#include "launch/hosts/host_ranks.h"
#include "launch/rendezvous/token.h"
#include "train/elastic.h"
#include "train/restarts.h"
#include "train/run_place.h"

namespace tessera {
namespace {

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1e3));
}

uint64_t new_run_id() {
  const std::string token = random_token();
  uint64_t id = 0;
  std::from_chars(token.data(), token.data() + 16, id, 16);
  return id == 0 ? 1 : id;
}

std::string state_path(const RunSpec& spec) { return spec.logging.run_dir + "/" + kHostsFile; }

// A run that goes on keeps its name and its count of generations.
void begin_state(const TrainCommandOptions& options, const RunSpec& spec) {
  const std::string path = state_path(spec);
  if (!options.resume.empty() && read_coordinator_state(path)) return;
  write_coordinator_state(path, {.run = new_run_id()});
}

// In the coordinator's process.
class HostRun {
 public:
  HostRun(const TrainCommandOptions& options, const RunSpec& spec, const AgentOptions& agent,
          const std::string& token, Console& console)
      : options_(options),
        spec_(spec),
        agent_(agent),
        token_(token),
        console_(console),
        journal_(spec.logging.run_dir),
        bounds_(parse_elastic(options.elastic)),
        elastic_(bounds_, spec) {}

  int coordinate(const UniqueFd& listener) {
    const std::optional<CoordinatorState> state = read_coordinator_state(state_path(spec_));
    require(state.has_value(), "'{}' is gone: another run has begun in this directory",
            state_path(spec_));
    const RunEnd end = run_coordinator(
        listener, {.coordinator = coordinator_options(), .state = *state, .token = token_});
    journal_.ended({.opened = end.opened});
    // A run that has come to its end is not gone on with.
    if (end.exit_code == 0) std::filesystem::remove(state_path(spec_));
    return end.exit_code;
  }

 private:
  [[nodiscard]] CoordinatorOptions coordinator_options() {
    CoordinatorOptions coordinator;
    coordinator.hosts = static_cast<int>(options_.hosts.hosts);
    coordinator.world = static_cast<int>(spec_.parallel.world());
    coordinator.restarts = static_cast<int>(options_.restarts);
    coordinator.lease = milliseconds_of(options_.hosts.lease_s);
    coordinator.host_wait = milliseconds_of(options_.hosts.wait_s);
    if (bounds_.on()) coordinator.sizes = host_sizes(bounds_, spec_, coordinator.hosts);
    coordinator.grow_after = bounds_.grow_after;
    coordinator.watch = agent_.watch;
    coordinator.keep = [this](const CoordinatorState& state) {
      write_coordinator_state(state_path(spec_), state);
    };
    coordinator.on_note = [this](const std::string& text) { say(text); };
    coordinator.on_loss = [this](const RankLoss& loss, bool opened) {
      journal_.lost(loss, {.opened = opened});
    };
    coordinator.on_restart = [this](const RankLoss& loss, int generation, int left) {
      journal_.restarted(loss, generation, left);
      say(restart_text(loss, generation, left));
    };
    coordinator.on_trouble = [this](const RankTrouble& trouble, bool opened) {
      journal_.trouble(trouble, {.opened = opened});
      say(trouble_text(trouble));
    };
    coordinator.on_resize = [this](int before, int ranks, int generation,
                                   const std::string& reason) {
      journal_.resized(before, ranks, generation, reason);
      say(resize_text(before, ranks, generation));
    };
    coordinator.describe_step = agent_.describe_step;
    coordinator.environment = [this](bool opened, int hosts) { return environment(opened, hosts); };
    return coordinator;
  }

  [[nodiscard]] std::vector<std::string> environment(bool opened, int hosts) {
    journal_.ended({.opened = opened});
    Environment told;
    RunSpec spec = spec_;
    spec.logging.run_dir = std::filesystem::absolute(spec.logging.run_dir);
    tell_run_directory(spec, told);
    journal_.prepare(told);
    if (bounds_.on()) {
      const int64_t ranks_of_host = spec_.parallel.world() / options_.hosts.hosts;
      elastic_.resize(static_cast<int>(hosts * ranks_of_host));
      elastic_.begin_generation(told);
    }
    std::vector<std::string> variables;
    for (const auto& [name, value] : told) variables.push_back(name + "=" + value);
    return variables;
  }

  void say(const std::string& text) {
    console_.err << fitted_err(console_, "tessera: " + printable(text)) << std::endl;
  }

  const TrainCommandOptions& options_;
  const RunSpec& spec_;
  const AgentOptions& agent_;
  const std::string& token_;
  Console& console_;
  RestartJournal journal_;
  const ElasticBounds bounds_;
  ElasticRun elastic_;
};

}  // namespace

int run_on_hosts(const TrainCommandOptions& options, const RunSpec& spec, AgentOptions agent,
                 const std::string& token, Console& console) {
  // As long as this agent lives: what ranks leave here outlives them and their keeper.
  const UniqueFd kept = spec.checkpoint.memory_every > 0 ? file_for_snapshots() : UniqueFd();
  agent.kept_fd = kept.get();
  const MeetingPlace place = meeting_place(options.hosts);
  HostAgentOptions host;
  host.host = static_cast<int>(options.hosts.host_rank);
  host.meet_host = place.host;
  host.meet_port = place.port;
  host.token = token;
  host.host_wait = milliseconds_of(options.hosts.wait_s);
  host.run_ranks = [&](const HostRanks& ranks, ControlLink& link) {
    return run_host_ranks(agent, ranks, token, link);
  };
  host.on_resize = [&] { forget_snapshots(kept); };
  host.takes_room = !options.elastic.empty();
  host.on_note = [&](const std::string& text) {
    console.err << fitted_err(console, "tessera: " + printable(text)) << std::endl;
  };
  host.on_failure = agent.on_failure;
  if (host.host == 0) {
    begin_state(options, spec);
    host.coordinate = [&](const UniqueFd& listener) {
      return HostRun(options, spec, agent, token, console).coordinate(listener);
    };
  }
  return run_host_agent(host);
}

}  // namespace tessera
