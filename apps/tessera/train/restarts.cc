#include "train/restarts.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr std::string_view kGoesOn = "TESSERA_RUN_GOES_ON";  // seconds since the run began
constexpr double kNoTimeLeft = 1e-6;
constexpr int64_t kMostRestarts = 1'000'000;

std::string stacks_file(int generation) { return fmt::format("stacks-{}.txt", generation); }

nlohmann::ordered_json exit_of(const ChildExit& exit) {
  if (exit.signal != 0) return {{"signal", signal_name(exit.signal)}};
  return {{"code", exit.code}};
}

}  // namespace

void require_restartable(const TrainCommandOptions& options, const RunSpec& spec, RankMode mode,
                         const LaunchContext& context) {
  require_config(options.restarts <= kMostRestarts, "--restarts {}: use at most {}",
                 options.restarts, with_thousands(kMostRestarts));
  require_config(options.spares == 0 || options.restarts > 0,
                 "--spares {}: a spare takes a place only in a restart: add --restarts 1",
                 options.spares);
  // Each is a process with the program in memory.
  require_config(mode != RankMode::kAgent || options.spares <= spec.parallel.world(),
                 "--spares {}: the run has {}, and the spares that took places are replaced with "
                 "every restart: use at most {}",
                 options.spares, count_of(spec.parallel.world(), "rank"), spec.parallel.world());
  if (options.restarts == 0) return;
  require_config(mode != RankMode::kThreads,
                 "--restarts {}: ranks that are threads of this process end with it: leave out {}, "
                 "and each rank is a process that can be started again",
                 options.restarts, options.threads ? "--threads" : "--backend local");
  require_config(mode == RankMode::kAgent || mode == RankMode::kAgentRank,
                 "--restarts {}: {} started the ranks, and it alone can start them again: leave "
                 "the flag out and use --resume auto, or start tessera once without a launcher",
                 options.restarts, name_of(context.launcher));
}

UniqueFd file_for_snapshots() {
  const UniqueFd file(::memfd_create("tessera-snapshots", MFD_CLOEXEC));
  // Not under the number of a standard stream that is closed just now.
  UniqueFd kept(file.valid() ? ::fcntl(file.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1);
  require(kept.valid(), "cannot make a file in memory for snapshots: {}", std::strerror(errno));
  return kept;
}

void forget_snapshots(const UniqueFd& file) {
  if (!file.valid()) return;
  require(::ftruncate(file.get(), 0) == 0, "cannot empty the file of snapshots: {}",
          std::strerror(errno));
}

void RestartJournal::prepare(Environment& environment) const {
  environment.erase(std::string(kGoesOn));
  if (opened_) environment.emplace(kGoesOn, fmt::format("{:.3f}", since_start_.seconds()));
}

void RestartJournal::trouble(const RankTrouble& trouble, const RunState& run) {
  opened_ = opened_ || run.opened;
  nlohmann::ordered_json line = {{"event", trouble.over ? "goes on" : "verdict"},
                                 {"verdict", name_of(trouble.verdict)},
                                 {"rank", trouble.rank},
                                 {"pid", trouble.pid},
                                 {"seconds", trouble.seconds},
                                 {"generation", trouble.generation},
                                 {"phase", name_of(trouble.section)},
                                 {"step", trouble.step}};
  if (!trouble.ranks.empty()) line["ranks"] = trouble.ranks;
  if (!trouble.at.empty()) line["at"] = trouble.at;
  if (!trouble.stacks.empty()) {
    line["stacks"] = stacks_file(trouble.generation);
    stacks_.emplace_back(stacks_file(trouble.generation), trouble.stacks);
  }
  line["time"] = unix_seconds();
  lines_.push_back(line.dump());
  write();
}

void RestartJournal::lost(const RankLoss& loss, const RunState& run) {
  opened_ = opened_ || run.opened;
  const bool partitioned = loss.verdict == Verdict::kPartitioned;
  lines_.push_back(
      nlohmann::ordered_json({{"event", "verdict"},
                              {"verdict", name_of(partitioned ? loss.verdict : Verdict::kLost)},
                              {"rank", loss.rank},
                              {"pid", loss.pid},
                              {"exit", exit_of(loss.exit)},
                              {"generation", loss.generation},
                              {"phase", name_of(loss.section)},
                              {"step", loss.step},
                              {"reason", loss.reason},
                              {"time", loss.unix_time}})
          .dump());
  write();
}

void RestartJournal::spare(pid_t pid, int rank, int generation) {
  nlohmann::ordered_json line = {{"event", rank < 0 ? "spare lost" : "spare"}, {"pid", pid}};
  if (rank >= 0) line["rank"] = rank;
  line["generation"] = generation;
  line["time"] = unix_seconds();
  lines_.push_back(line.dump());
  write();
}

void RestartJournal::restarted(const RankLoss& loss, int generation, int left) {
  lines_.push_back(nlohmann::ordered_json({{"event", "restart"},
                                           {"generation", generation},
                                           {"rank", loss.rank},
                                           {"reason", name_of(loss.verdict)},
                                           {"restarts_left", left},
                                           {"time", unix_seconds()}})
                       .dump());
  write();
}

void RestartJournal::resized(int before, int ranks, int generation, const std::string& reason) {
  opened_ = opened_ || ranks > before;  // only ranks that train make room for more
  lines_.push_back(nlohmann::ordered_json({{"event", ranks < before ? "shrink" : "grow"},
                                           {"generation", generation},
                                           {"before", before},
                                           {"ranks", ranks},
                                           {"reason", reason},
                                           {"time", unix_seconds()}})
                       .dump());
  write();
}

void RestartJournal::ended(const RunState& run) {
  opened_ = opened_ || run.opened;
  write();
}

// A disk that does not take the lines costs them, never the run.
void RestartJournal::write() {
  if (!opened_ || lines_.empty()) return;
  std::ofstream file(run_dir_ + "/events.jsonl", std::ios::binary | std::ios::app);
  for (const std::string& line : lines_) file << line + "\n";
  file.flush();
  lines_.clear();
  for (const auto& [name, text] : stacks_) {
    std::ofstream(run_dir_ + "/" + name, std::ios::binary) << text;
  }
  stacks_.clear();
}

void hear_restarts(const Environment& environment, TrainOptions& train) {
  const auto told = environment.find(kGoesOn);
  if (told == environment.end()) return;
  train.goes_on = true;
  if (train.max_seconds > 0) {
    train.max_seconds = std::max(kNoTimeLeft, train.max_seconds - std::stod(told->second));
  }
}

std::string spare_text(pid_t pid, int rank) {
  if (rank < 0) return fmt::format("the spare with pid {} has died", pid);
  return fmt::format("the spare with pid {} is rank {} now", pid, rank);
}

std::string trouble_text(const RankTrouble& trouble) {
  const bool hung = trouble.verdict == Verdict::kHung;
  const std::string who = fmt::format("rank {} (pid {})", trouble.rank, trouble.pid);
  if (trouble.over) return fmt::format("{} goes on after {:.1f} s", who, trouble.seconds);
  const std::string where = fmt::format("in {} {}", name_of(trouble.section), trouble.step);
  if (hung) {
    const std::string calls = trouble.at.empty()
                                  ? ""
                                  : fmt::format("; it is in {} (where all ranks are: {})",
                                                trouble.at, stacks_file(trouble.generation));
    return fmt::format("{} has hung for {:.1f} s, {}, and all others wait for it{}", who,
                       trouble.seconds, where, calls);
  }
  return fmt::format("{} has been stopped for {:.1f} s, {}", who, trouble.seconds, where);
}

std::string restart_text(const RankLoss& loss, int generation, int left) {
  return fmt::format("{}: all ranks start again (generation {}), {} left", loss.reason, generation,
                     count_of(left, "restart"));
}

std::string resize_text(int before, int ranks, int generation) {
  return fmt::format("goes on with {} instead of {} (generation {})", count_of(ranks, "rank"),
                     before, generation);
}

}  // namespace tessera
