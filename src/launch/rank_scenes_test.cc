// The roles of launch/testing/test_roles.h.
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "base/error.h"
#include "comm/shm/shm_world.h"
#include "launch/agent/agent.h"
#include "launch/environment.h"
#include "launch/join/shm_join.h"
#include "launch/rank_failure.h"
#include "launch/rendezvous/rendezvous.h"
#include "launch/system_files.h"
#include "launch/testing/test_roles.h"

extern char** environ;

namespace tessera::testing {
namespace {

using std::chrono::milliseconds;

void say(const std::string& text, int fd = STDOUT_FILENO) {
  // One write per line, as a program that flushes every line.
  [[maybe_unused]] const ssize_t written = ::write(fd, text.data(), text.size());
}

[[noreturn]] void sleep_for_ever() {
  while (true) std::this_thread::sleep_for(milliseconds(1'000));
}

struct Rank {
  LaunchContext context;
  std::unique_ptr<CommWorld> world;
  std::unique_ptr<Communicator> all;
  std::vector<std::string> parameters;

  [[nodiscard]] int number(size_t parameter) const { return std::stoi(parameters.at(parameter)); }
  [[nodiscard]] bool is(size_t parameter) const { return context.rank == number(parameter); }

  // Attaches, waits for everybody, and says so with its pid.
  void join() {
    attach();
    all = world->join_all("world");
    all->barrier();
    say(fmt::format("ready {}\n", ::getpid()));
  }
  void attach() { world = attach_shm_world({.fd = context.shm_fd, .rank = context.rank}); }
  [[noreturn]] void wait_for_peers() const {
    while (true) all->barrier();
  }
};

int finish(Rank& rank) {
  rank.join();
  rank.all->barrier();
  return 0;
}

int exit_with(Rank& rank) {  // code, rank
  rank.join();
  if (rank.is(1)) ::_exit(rank.number(0));
  rank.wait_for_peers();
}

int exit_unnoticed(Rank& rank) {  // code, rank
  rank.join();
  if (rank.is(1)) ::_exit(rank.number(0));
  sleep_for_ever();
}

int exit_before_joining(Rank& rank) {  // code, rank
  if (rank.is(1)) ::_exit(rank.number(0));
  rank.join();
  return 0;
}

int fail_with(Rank& rank) {  // code, rank
  rank.join();
  if (!rank.is(1)) rank.wait_for_peers();
  abort_as_rank(*rank.world, "the disk is full");
  return rank.number(0);
}

int wait_in_barrier(Rank& rank) {
  rank.join();
  rank.wait_for_peers();
}

// As a trainer: all ranks stop after the same step.
int stop_when_asked(Rank& rank) {
  rank.join();
  while (true) {
    int32_t stop = rank.world->stop_requested() ? 1 : 0;
    rank.all->all_reduce(&stop, 1, DType::kI32, 0, ReduceOp::kMax);
    if (stop != 0) return 130;
    std::this_thread::sleep_for(milliseconds(5));
  }
}

int ignore_everything(Rank& rank) {
  rank.join();
  sleep_for_ever();
}

int one_ignores(Rank& rank) {  // rank
  rank.join();
  if (rank.is(0)) sleep_for_ever();
  rank.wait_for_peers();
}

int leave_early(Rank& rank) {  // rank, whether the others then wait for it
  rank.join();
  if (rank.is(0)) return 0;
  std::this_thread::sleep_for(milliseconds(200));
  if (rank.number(1) != 0) rank.wait_for_peers();
  return 0;
}

int print_lines(Rank& rank) {  // how many
  const int id = rank.context.rank;
  for (int i = 0; i < rank.number(0); ++i) {
    const std::string filling(static_cast<size_t>(i * 7 % 200), static_cast<char>('a' + id));
    say(fmt::format("{}:{}:{}:\n", id, i, filling), i % 2 == 0 ? STDOUT_FILENO : STDERR_FILENO);
  }
  return 0;
}

int print_text(Rank& rank) {  // text, times
  std::string text;
  for (int i = 0; i < rank.number(1); ++i) text += rank.parameters.at(0);
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t put = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (put <= 0) return 1;
    rest.remove_prefix(static_cast<size_t>(put));
  }
  say("an error", STDERR_FILENO);
  return 0;
}

int print_for_ever(Rank& rank) {
  if (rank.context.rank == 0) sleep_for_ever();
  say(fmt::format("ready {}\n", ::getpid()));
  const std::string line(100, 'x');
  while (true) say(line + "\n");
}

int print_environment(Rank& rank) {
  std::string cpus;
  cpu_set_t set;
  ::sched_getaffinity(0, sizeof(set), &set);
  const bool ignores = ::signal(SIGINT, SIG_DFL) == SIG_IGN;
  say(fmt::format("rank {} of {} local {} token {} cpus {} ignores_int {} mine {}\n",
                  rank.context.rank, rank.context.size, rank.context.local_rank.value_or(-1),
                  rank.context.token.size(), CPU_COUNT(&set), ignores,
                  environment_from(environ)["MINE"]));
  return 0;
}

int print_oom_score(Rank& /*rank*/) {
  const auto score_of = [](const std::string& process) {
    return first_line("/proc/" + process + "/oom_score_adj");
  };
  say(fmt::format("scores {} {}\n", score_of("self"), score_of(std::to_string(::getppid()))));
  return 0;
}

// Ranks that nobody started together: joins by the torchrun variables and sums the ranks.
int meet(Rank& rank) {  // timeout in ms
  RendezvousOptions options;
  options.timeout = milliseconds(rank.number(0));
  options.on_note = [](const std::string& note) { say(note + "\n", STDERR_FILENO); };
  const auto rendezvous = rendezvous_for(rank.context, options);
  rank.world = join_shm_by_rendezvous(
      *rendezvous,
      {.rank = rank.context.rank, .size = rank.context.size, .bytes_per_rank = 1 << 20});
  rank.all = rank.world->join_all("world");
  auto sum = static_cast<int64_t>(rank.context.rank);
  rank.all->all_reduce(&sum, 1, DType::kI64);
  say(fmt::format("sum {}\n", sum));
  return 0;
}

const std::map<std::string, std::function<int(Rank&)>> kScenes = {
    {"finish", finish},
    {"exit", exit_with},
    {"exit_unnoticed", exit_unnoticed},
    {"exit_before_joining", exit_before_joining},
    {"fail", fail_with},
    {"barriers", wait_in_barrier},
    {"stop_when_asked", stop_when_asked},
    {"ignore_everything", ignore_everything},
    {"one_ignores", one_ignores},
    {"leave_early", leave_early},
    {"lines", print_lines},
    {"text", print_text},
    {"print_for_ever", print_for_ever},
    {"environment", print_environment},
    {"oom_score", print_oom_score},
    {"meet", meet},
};

void limit(int resource, rlim_t value) {
  const rlimit both{.rlim_cur = value, .rlim_max = value};
  require(::setrlimit(static_cast<__rlimit_resource_t>(resource), &both) == 0, "setrlimit");
}

}  // namespace

int run_as_agent(const std::vector<std::string>& arguments) {
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  AgentOptions options;
  options.bytes_per_rank = 1 << 20;
  options.environment = environment_from(environ);
  for (auto argument = arguments.begin(); argument != separator; ++argument) {
    const size_t equals = argument->find('=');
    const std::string name = argument->substr(0, equals);
    const std::string value = argument->substr(equals + 1);
    if (name == "ranks") options.ranks = std::stoi(value);
    if (name == "grace") options.grace = milliseconds(std::stoi(value));
    if (name == "leave_time") options.leave_time = milliseconds(std::stoi(value));
    if (name == "threads") options.threads_per_rank = std::stoi(value);
    if (name == "log_dir") options.log_dir = value;
    if (name == "executable") options.executable = value;
    if (name == "max_files") limit(RLIMIT_NOFILE, static_cast<rlim_t>(std::stoi(value)));
    if (name == "user") require(::setresuid(65534, 65534, 65534) == 0, "setresuid");
    if (name == "max_processes") limit(RLIMIT_NPROC, static_cast<rlim_t>(std::stoi(value)));
    if (name == "close_input") ::close(STDIN_FILENO);
  }
  options.arguments = {"launch_test", "--as-rank"};
  options.arguments.insert(options.arguments.end(), separator + 1, arguments.end());
  return run_agent(options);
}

int run_as_rank(const std::vector<std::string>& arguments) {
  Rank rank;
  rank.context = detect_launch(environment_from(environ));
  rank.parameters = {arguments.begin() + 1, arguments.end()};
  try {
    return kScenes.at(arguments.at(0))(rank);
  } catch (const Error& error) {
    if (rank.context.launcher != Launcher::kAgent) throw;
    if (rank.world) abort_as_rank(*rank.world, error.what());
    return static_cast<int>(error.code());
  }
}

}  // namespace tessera::testing
