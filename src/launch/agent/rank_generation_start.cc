#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/text/text.h"
#include "launch/agent/rank_generation.h"
#include "launch/environment.h"
#include "launch/oom_score.h"
#include "launch/rendezvous/token.h"

namespace tessera {
namespace {

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  std::string bytes = text.str();
  require(!bytes.empty(), "cannot read /proc/self/cmdline: is /proc mounted?");
  if (bytes.back() == '\0') bytes.pop_back();
  std::vector<std::string> arguments;
  for (const std::string_view argument : split(bytes, '\0')) arguments.emplace_back(argument);
  return arguments;
}

// Through no link, and not into a pipe, where opening waits until somebody reads it.
UniqueFd open_log(const std::string& path, bool anew) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  UniqueFd fd(::open(path.c_str(), kFlags | (anew ? O_TRUNC : 0), 0666));
  struct stat status {};
  const bool opened = fd.valid() && ::fstat(fd.get(), &status) == 0;
  require_config(opened, "cannot write the log '{}': {}; use another --log-dir", path,
                 std::strerror(errno));
  require_config(S_ISREG(status.st_mode), "the log '{}' is not a plain file: remove it", path);
  return fd;
}

UniqueFd open_for_rank(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  require(fd.valid(), "cannot open '{}' for the ranks: {}", path, std::strerror(errno));
  return fd;
}

}  // namespace

RankGeneration::RankGeneration(const AgentOptions& options, SignalInbox& signals, SparePool& spares,
                               int generation, const std::vector<int>& replaced)
    : options_(options),
      generation_(generation),
      environment_(options.environment),
      executable_(options.executable.empty() ? "/proc/self/exe" : options.executable),
      arguments_(options.arguments.empty() ? own_arguments() : options.arguments),
      token_(random_token()),
      memory_(
          ShmMemory::create({.ranks = options.ranks, .bytes_per_rank = options.bytes_per_rank})),
      signals_(signals),
      spares_(spares),
      output_(options.out_fd, options.err_fd),
      no_input_(open_for_rank("/dev/null", O_RDONLY)),
      replaced_(replaced),
      killed_(static_cast<size_t>(options.ranks)),
      last_seen_(static_cast<size_t>(options.ranks)),
      watch_(options.ranks, options.watch),
      condemned_(static_cast<size_t>(options.ranks)) {
  if (options.restarts > 0 || options.part.overseer != nullptr) look_at_ = Clock::now();
  if (options.prepare) options.prepare(generation, environment_);
  if (options.pin_to_cores) cores_ = allowed_cores();
  if (options.log_dir.empty()) return;
  std::error_code failure;
  std::filesystem::create_directories(options.log_dir, failure);
  require_config(!failure, "cannot create the log folder '{}': {}", options.log_dir,
                 failure.message());
}

SpawnRequest RankGeneration::child_request() const {
  SpawnRequest request;
  request.executable = executable_;
  request.arguments = arguments_;
  request.environment = environment_;
  request.stdout_fd = options_.out_fd;
  request.stderr_fd = options_.err_fd;
  request.oom_score = kRankOomScore;
  request.signal_mask = signals_.previous_mask();
  request.kept_fd = options_.kept_fd;
  return request;
}

// After the ranks, which come first where processes are scarce.
void RankGeneration::start_spares() {
  if (options_.spares > 0) spares_.fill(options_.spares, child_request());
}

void RankGeneration::say_spare(pid_t pid, int rank) const {
  if (options_.on_spare) options_.on_spare(pid, rank, generation_);
}

void RankGeneration::start_rank(int rank, bool by_spare) {
  SpawnRequest request = child_request();
  request.name = fmt::format("rank {}", rank);
  const auto tell = [&](std::string_view name, const std::string& value) {
    request.environment.insert_or_assign(std::string(name), value);
  };
  tell(agent_variable::kRank, std::to_string(rank));
  tell(agent_variable::kSize, std::to_string(options_.ranks));
  const int local = rank - options_.part.first_rank;
  tell(agent_variable::kLocalRank, std::to_string(local));
  tell(agent_variable::kMemory, std::to_string(memory_.fd()));
  tell(agent_variable::kToken, token_);
  tell(agent_variable::kGeneration, std::to_string(generation_));
  if (options_.kept_fd >= 0) tell(agent_variable::kKept, std::to_string(options_.kept_fd));
  if (!options_.part.listeners.empty()) {
    request.listener_fd = options_.part.listeners.at(static_cast<size_t>(local));
    tell(agent_variable::kListener, std::to_string(request.listener_fd));
  }

  UniqueFd out;
  UniqueFd err;
  const bool logged = !options_.log_dir.empty();
  if (logged) {
    out = open_log(fmt::format("{}/rank-{}.log", options_.log_dir, rank), generation_ == 1);
  }
  if (logged && rank == 0) {
    first_log_ = std::move(out);
    out = output_.open_pipe("", OutputForwarder::Target::kOut, first_log_.get());
    err = output_.open_pipe("", OutputForwarder::Target::kErr, first_log_.get());
  } else if (!logged && rank > 0) {
    const std::string prefix = fmt::format("[rank {}] ", rank);
    out = output_.open_pipe(prefix, OutputForwarder::Target::kOut);
    err = output_.open_pipe(prefix, OutputForwarder::Target::kErr);
  }
  request.stdin_fd = rank == 0 ? STDIN_FILENO : no_input_.get();
  request.stdout_fd = out.valid() ? out.get() : options_.out_fd;
  request.stderr_fd = err.valid() ? err.get() : out.valid() ? out.get() : options_.err_fd;
  request.inherited_fd = memory_.fd();
  request.cpus = share_of_cores(cores_, local, options_.ranks_here(), options_.threads_per_rank);
  if (by_spare) {
    if (const std::optional<pid_t> spare = spares_.take(request)) {
      ranks_.add(*spare);
      say_spare(*spare, rank);
      return;
    }
  }
  ranks_.add(spawn_child(request));
}

}  // namespace tessera
