#include "bench/bench_start.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/text/text.h"
#include "bench/bench_arrays.h"
#include "cli/interrupt.h"
#include "comm/local/local_world.h"
#include "comm/mpi/mpi_world.h"
#include "comm/nccl/nccl_world.h"
#include "launch/agent/agent.h"
#include "launch/agent/child_exit.h"
#include "launch/agent/spawn.h"
#include "launch/cores.h"
#include "launch/rank_failure.h"
#include "launch/unique_fd.h"

namespace tessera {
namespace {

// Places of arrays differ by up to this much between ranks.
constexpr int64_t kHeapSlack = int64_t{16} << 20;

// Where the lines of rank 0 are kept: memory that looks like a file.
class RowFile {
 public:
  RowFile() : fd_(memfd_create("tessera bench rows", MFD_CLOEXEC)) {
    require(fd_.valid(), "cannot make a file for the rows: {}", std::strerror(errno));
  }
  [[nodiscard]] int fd() const { return fd_.get(); }

  [[nodiscard]] std::vector<BenchRow> rows() const {
    std::string text(static_cast<size_t>(lseek(fd_.get(), 0, SEEK_END)), '\0');
    const ssize_t size = pread(fd_.get(), text.data(), text.size(), 0);
    require(size == static_cast<ssize_t>(text.size()), "cannot read the rows: {}",
            std::strerror(errno));
    std::vector<BenchRow> rows;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) rows.push_back(row_from(line));
    return rows;
  }

 private:
  UniqueFd fd_;
};

std::vector<std::string> rank_arguments(const BenchSuite& plan, CollectiveOp op, int num_ranks) {
  std::vector<std::string> words = plan.arguments(op, num_ranks);
  words.insert(words.begin(), "tessera");
  words.emplace_back("--rows");
  return words;
}

SweepRun run_processes(const BenchSuite& plan, CollectiveOp op, int num_ranks,
                       const Environment& environment, Console& console) {
  const RowFile file;
  AgentOptions agent;
  agent.ranks = num_ranks;
  agent.arguments = rank_arguments(plan, op, num_ranks);
  agent.environment = environment;
  agent.bytes_per_rank = 2 * plan.largest_array_bytes(op, num_ranks) + kHeapSlack;
  agent.out_fd = file.fd();
  agent.on_failure = [&](const std::string& text) { report_failure(console, text); };
  const int code = run_agent(agent);
  return {code, code == 0 ? file.rows() : std::vector<BenchRow>()};
}

void run_thread_rank(LocalWorld& world, int rank, const BenchSuite& plan,
                     const RowHandler& on_row) {
  const std::vector<int> cpus = share_of_cores(allowed_cores(), rank, world.size(), 1);
  if (!cpus.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
    (void)sched_setaffinity(0, sizeof(set), &set);  // unpinned is slower, not wrong
  }
  measure_as_rank(plan, world.endpoint(rank), rank, on_row);
}

SweepRun run_threads(const BenchSuite& plan, CollectiveOp op, int num_ranks) {
  BenchSuite one = plan;
  one.ops = {op};
  SweepRun run;
  LocalWorld world({.size = num_ranks});
  std::mutex mutex;
  std::exception_ptr first;  // guarded by mutex
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run_thread_rank(world, rank, one,
                        [&](CollectiveOp, const BenchRow& row) { run.rows.push_back(row); });
      } catch (const std::exception& error) {
        const std::scoped_lock lock(mutex);
        if (!first) first = std::current_exception();
        world.abort(fmt::format("rank {}: {}", rank, error.what()));
      }
    });
  }
  threads.clear();  // joins
  if (first) std::rethrow_exception(first);
  return run;
}

std::string find_program(const std::string& name, const Environment& environment) {
  const auto path = environment.find("PATH");
  if (path != environment.end()) {
    for (const std::string_view folder : split(path->second, ':')) {
      const std::string file = fmt::format("{}/{}", folder, name);
      if (access(file.c_str(), X_OK) == 0) return file;
    }
  }
  throw ConfigError(fmt::format(
      "--backend mpi needs {}, which is not in PATH: install it (Debian, Ubuntu: apt-get install "
      "openmpi-bin), or start the ranks yourself: srun tessera bench comm --backend mpi",
      name));
}

// Waits for mpirun; a signal for this process goes on to it, which then ends its ranks.
ChildExit wait_for_mpirun(pid_t pid, const InterruptGuard& interrupt) {
  bool told = false;
  for (;;) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) return child_exit_from(status);
    if (interrupt.interrupted() && !told) {
      kill(pid, SIGTERM);
      told = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

SweepRun run_mpi(const BenchSuite& plan, CollectiveOp op, int num_ranks,
                 const Environment& environment, Console& console) {
  const RowFile file;
  const bool crowded = static_cast<size_t>(num_ranks) > allowed_cores().size();
  SpawnRequest request;
  request.name = "mpirun";
  request.executable = find_program("mpirun", environment);
  request.arguments = {"mpirun", "--oversubscribe", "--bind-to", crowded ? "none" : "core"};
  if (crowded) {
    for (const char* word : {"--mca", "mpi_yield_when_idle", "1"}) {
      request.arguments.emplace_back(word);
    }
  }
  request.arguments.insert(request.arguments.end(), {"-n", std::to_string(num_ranks)});
  std::vector<std::string> command = rank_arguments(plan, op, num_ranks);
  command.front() = std::filesystem::read_symlink("/proc/self/exe");
  request.arguments.insert(request.arguments.end(), command.begin(), command.end());
  request.environment = environment;
  request.stdout_fd = file.fd();
  sigprocmask(SIG_SETMASK, nullptr, &request.signal_mask);
  const InterruptGuard interrupt;
  const ChildExit exit = wait_for_mpirun(spawn_child(request), interrupt);
  if (interrupt.interrupted()) return {kSignalCode + interrupt.signal(), {}};
  if (!exit.failed()) return {0, file.rows()};
  report_failure(console, fmt::format("mpirun {}", describe(exit)));
  return {static_cast<int>(ExitCode::kFailed), {}};
}

void measure_on_host(const BenchSuite& plan, CommWorld& world, int64_t array_bytes,
                     const RowHandler& on_row) {
  const auto arrays = make_host_arrays(world, array_bytes);
  const auto group = world.join_all("bench");
  for (const CollectiveOp op : plan.ops) {
    measure_sweep(*group, *group, *arrays, plan.cases(op, world.size()), plan.sweep,
                  [&](const BenchRow& row) { on_row(op, row); });
  }
}

void measure_on_gpus(const BenchSuite& plan, CommWorld& host, int device, int64_t array_bytes,
                     const RowHandler& on_row) {
  const auto world = make_nccl_world({.host = host, .device = device});
  const auto arrays = make_device_arrays(*world, array_bytes);
  const auto group = world->join_all("bench");
  const auto host_group = host.join_all("bench host");
  for (const CollectiveOp op : plan.ops) {
    measure_sweep(*group, *host_group, *arrays, plan.cases(op, host.size()), plan.sweep,
                  [&](const BenchRow& row) { on_row(op, row); });
  }
}

}  // namespace

void require_backend(BenchBackend backend) {
  if (backend == BenchBackend::kNccl) {
    const std::string obstacle = nccl_obstacle();
    require_config(obstacle.empty(), "--backend nccl cannot be used: {}", obstacle);
  }
  require_config(backend != BenchBackend::kMpi || mpi_available(),
                 "--backend mpi cannot be used: this tessera was built without MPI; install it "
                 "(Debian, Ubuntu: apt-get install openmpi-bin libopenmpi-dev), then configure and "
                 "build again");
}

SweepRun run_sweep(const BenchSuite& plan, CollectiveOp op, int num_ranks,
                   const Environment& environment, Console& console) {
  switch (plan.backend) {
    case BenchBackend::kLocal:
      return run_threads(plan, op, num_ranks);
    case BenchBackend::kMpi:
      return run_mpi(plan, op, num_ranks, environment, console);
    default:
      return run_processes(plan, op, num_ranks, environment, console);
  }
}

void measure_as_rank(const BenchSuite& plan, CommWorld& world, int local_rank,
                     const RowHandler& on_row) {
  int64_t array_bytes = 0;
  for (const CollectiveOp op : plan.ops) {
    array_bytes = std::max(array_bytes, plan.largest_array_bytes(op, world.size()));
  }
  if (plan.backend == BenchBackend::kNccl) {
    return measure_on_gpus(plan, world, local_rank, array_bytes, on_row);
  }
  measure_on_host(plan, world, array_bytes, on_row);
}

std::string to_line(const BenchRow& row) {
  const nlohmann::json line = {{"index", row.index},
                               {"seconds", row.seconds},
                               {"fastest_s", row.fastest_s},
                               {"slowest_s", row.slowest_s},
                               {"calls_per_sample", row.calls_per_sample},
                               {"samples", row.samples},
                               {"wrong", row.wrong}};
  return line.dump() + "\n";
}

BenchRow row_from(const std::string& line) {
  const nlohmann::json read = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  require(read.is_object(), "a rank wrote '{}' where a row was expected", in_quotes(line));
  BenchRow row;
  row.index = read.at("index");
  row.seconds = read.at("seconds");
  row.fastest_s = read.at("fastest_s");
  row.slowest_s = read.at("slowest_s");
  row.calls_per_sample = read.at("calls_per_sample");
  row.samples = read.at("samples");
  row.wrong = read.at("wrong");
  return row;
}

}  // namespace tessera
