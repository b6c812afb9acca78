// Row 27 of the matrix of faults: a run to which something happens again and again, drawn from a
// seed, ends with the bits of the run that nothing happened to, and neither its agent nor its ranks
// grow. Its ranks take snapshots in memory, and their number shrinks and grows.
//
// A commit soaks for a few seconds, ./test --all for ten minutes, TESSERA_SOAK_SECONDS=7200 for two
// hours; from ten minutes on, four fifths of the time must have gone into steps that count.
// TESSERA_SOAK_SEED draws the faults of a run that failed once more.
#include <random>

#include "base/testing/share.h"
#include "faults/fault_run.h"

namespace tessera::testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

int64_t number_of(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoll(text);
}

// What a process holds, as /proc says.
struct Holding {
  size_t files = 0;
  int64_t rss_kib = 0;
  size_t shared = 0;  // segments with a name in /dev/shm, of anybody
};
size_t entries_of(const std::filesystem::path& folder) {
  std::error_code gone;
  size_t count = 0;
  for (auto entry = std::filesystem::directory_iterator(folder, gone);
       !gone && entry != std::filesystem::directory_iterator(); entry.increment(gone)) {
    ++count;
  }
  return count;
}
Holding holding_of(pid_t pid) {
  const std::string process = fmt::format("/proc/{}", pid);
  Holding holding{entries_of(process + "/fd"), 0, entries_of("/dev/shm")};
  std::ifstream status(process + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) holding.rss_kib = std::atoll(line.c_str() + 6);
  }
  return holding;
}

class SoakTest : public FaultTest {
 protected:
  SoakTest()
      : length_(number_of("TESSERA_SOAK_SECONDS", tries_all() ? 600 : 4)),
        apart_(std::clamp<int64_t>(length_ / 6, 2, 15)),
        seed_(static_cast<uint64_t>(number_of("TESSERA_SOAK_SEED", std::random_device()()))),
        dice_(seed_) {}

  int64_t roll(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(dice_);
  }

  [[nodiscard]] int64_t steps() const { return length_ * 1000 / kStepMs; }
  [[nodiscard]] std::string run_line(const std::string& dir, const std::string& flags) const {
    return fmt::format(
        "train run.toml -q --set logging.run_dir={} --set train.steps={} --set optimizer.lr=1e-3 "
        "--mesh dp=3 --set train.lanes=4 --set checkpoint.every=10 --set "
        "checkpoint.async=true --set checkpoint.memory_every=3 {}",
        dir, steps(), flags);
  }

  // The same steps without a delay and without faults.
  void run_undisturbed() {
    Command command(folder_, words_of(run_line("straight", "--threads")),
                    {.environment = {}, .output = "straight"});
    ASSERT_TRUE(wait_until([&] { return !is_running(command.pid()); }, limit()));
    const CommandResult result = command.finish();
    ASSERT_EQ(result.code, 0) << result.err;
  }

  // What ranks do to themselves, in every other generation at most once: at a place, or in a save.
  std::string faults_by_generation() {
    constexpr const char* kPoints[] = {
        "comm.init:rank={},act=kill",           "load:rank={},act=kill",
        "step.forward:rank={},at=9,act=kill",   "step.update:rank={},at=31,act=kill",
        "step.backward:rank={},at=17,act=spin", "step.collective:rank={},at=25,act=stop",
        "save.stage:rank={},at=2,act=kill",     "save.change:rank={},at=7,act=kill",
        "save.rename:rank={},at=2,act=kill",    "save.write:rank={},at=3,act=fail",
        "save.sync:rank={},at=2,act=fail",      "snapshot.copy:rank={},at=2,act=kill",
        "snapshot.seal:rank={},at=3,act=kill",  "load.chunk:rank={},at=4,act=kill",
        "step.end:rank={},at=13,act=flip"};
    std::string text = fmt::format("step.begin:generation=0,act=delay={}", kStepMs);
    // Never in two that follow each other: a step that fails three times would end the run.
    for (int generation = 1; generation <= kMostGenerations; generation += 2) {
      if (roll(0, 1) == 0) continue;
      const char* point = kPoints[roll(0, std::ssize(kPoints) - 1)];
      text += fmt::format(";{},generation={}", fmt::format(fmt::runtime(point), roll(0, 1)),
                          generation);
    }
    return text;
  }

  // What was the case in many ranks, of which each generation has others: the largest.
  [[nodiscard]] Holding holding_of_ranks() {
    Holding most;
    for (const auto& [rank, pid] : ranks_of(agent_)) {
      const Holding one = holding_of(pid);
      most.files = std::max(most.files, one.files);
      most.rss_kib = std::max(most.rss_kib, one.rss_kib);
      // From its third second on it has all that it needs.
      Life& life = lives_[pid];
      if (life.begin == Clock::time_point()) life.begin = Clock::now();
      if (Clock::now() - life.begin < seconds(3) || one.rss_kib == 0) continue;
      if (life.first.rss_kib == 0) life.first = one;
      life.last = one;
    }
    return most;
  }

  // What somebody does to them from outside.
  void do_something() {
    const std::vector<pid_t> children = children_of(agent_);
    if (children.empty()) return;
    const pid_t one = children[static_cast<size_t>(roll(0, std::ssize(children) - 1))];
    switch (roll(0, 4)) {
      case 0:
      case 1:
        ::kill(one, SIGKILL);
        break;
      case 2:
        for (const pid_t child : children) ::kill(child, SIGKILL);
        break;
      case 3:
        ::kill(one, SIGSTOP);
        break;
      default:
        ::kill(one, SIGSTOP);
        std::this_thread::sleep_for(milliseconds(50));
        ::kill(one, SIGCONT);
    }
    ++done_;
  }

  // Until the run ends, or takes longer than can be. Samples lie between faults.
  bool disturb() {
    const Clock::time_point end = Clock::now() + limit();
    Clock::time_point next = Clock::now() + seconds(1);
    Clock::time_point look = Clock::now();
    while (is_running(agent_)) {
      if (Clock::now() > end) return false;
      if (Clock::now() >= look) {
        (void)holding_of_ranks();
        look = Clock::now() + seconds(1);
      }
      if (Clock::now() >= next && done_ < length_ / apart_ + 2) {
        samples_.push_back(holding_of(agent_));
        of_ranks_.push_back(holding_of_ranks());
        do_something();
        next = Clock::now() + milliseconds(roll(apart_ * 500, apart_ * 1500));
      }
      std::this_thread::sleep_for(milliseconds(20));
    }
    return true;
  }

  // A restart takes a second, a rank that hangs three, and a busy machine many times as long.
  [[nodiscard]] seconds limit() const { return seconds(120 + 6 * length_); }

  void expect_same_as_undisturbed() {
    EXPECT_TRUE(read_file(folder_.path("out/model.safetensors")) ==
                read_file(folder_.path("straight/model.safetensors")))
        << "other weights";
    const auto mine = read_metrics(folder_.path("out/metrics.jsonl"));
    const auto theirs = read_metrics(folder_.path("straight/metrics.jsonl"));
    ASSERT_EQ(mine.size(), theirs.size());
    for (size_t i = 0; i < mine.size(); ++i) {
      for (const char* key : {"step", "loss", "lr", "grad_norm", "tokens", "samples_hash"}) {
        ASSERT_EQ(mine[i].at(key), theirs[i].at(key)) << key << " of line " << i;
      }
    }
  }

  // The smallest of the last third beside the largest of the first: peaks of restarts may lie
  // anywhere. A log and a ledger may grow a little.
  static void expect_no_growth(const char* whose, const std::vector<Holding>& samples) {
    if (samples.size() < 6) return;
    const size_t third = samples.size() / 3;
    Holding early, late{SIZE_MAX, INT64_MAX, SIZE_MAX};
    for (size_t i = 0; i < third; ++i) {
      early.files = std::max(early.files, samples[i].files);
      early.rss_kib = std::max(early.rss_kib, samples[i].rss_kib);
      early.shared = std::max(early.shared, samples[i].shared);
      const Holding& last = samples[samples.size() - 1 - i];
      late.files = std::min(late.files, last.files);
      late.rss_kib = std::min(late.rss_kib, last.rss_kib);
      late.shared = std::min(late.shared, last.shared);
    }
    EXPECT_LE(late.files, early.files + 2) << whose;
    EXPECT_LE(late.shared, early.shared + 2) << whose;
    EXPECT_LE(late.rss_kib, early.rss_kib + kGrowthKib) << whose;
    fmt::print("{}: files {} -> {}, RSS {} -> {} KiB, /dev/shm {} -> {}\n", whose, early.files,
               late.files, early.rss_kib, late.rss_kib, early.shared, late.shared);
  }
  // Every rank within its own life, however long that was.
  void expect_no_rank_grew() const {
    int64_t most = 0;
    size_t files = 0;
    for (const auto& [pid, life] : lives_) {
      if (life.first.rss_kib == 0) continue;
      most = std::max(most, life.last.rss_kib - life.first.rss_kib);
      files = std::max(files, life.last.files - std::min(life.last.files, life.first.files));
    }
    // What a save has open, and what a rank that starts slowly has not touched yet: a leak would
    // have outgrown both in a life of minutes.
    EXPECT_LE(most, 2 * kGrowthKib);
    EXPECT_LE(files, 8U);
    fmt::print("of {} ranks one grew by {} KiB and {} files at most\n", lives_.size(), most, files);
  }

  // The share of the time that no fault has cost: all but what lies between the last step that
  // counts before a new generation, and the first after it.
  [[nodiscard]] double goodput() const {
    std::vector<double> starts;
    for (const char* kind : {"restart", "grow"}) {
      for (const nlohmann::json& event : events(kind)) {
        starts.push_back(event.at("time").get<double>());
      }
    }
    std::sort(starts.begin(), starts.end());
    const std::vector<nlohmann::json> metrics = read_metrics(folder_.path("out/metrics.jsonl"));
    const auto time = [&](size_t i) { return metrics[i].at("time").get<double>(); };
    double lost = 0;
    for (size_t i = 1; i < metrics.size(); ++i) {
      const auto start = std::lower_bound(starts.begin(), starts.end(), time(i - 1));
      if (start != starts.end() && *start < time(i)) lost += time(i) - time(i - 1);
    }
    return 1 - lost / (time(metrics.size() - 1) - time(0));
  }

  struct Life {
    Clock::time_point begin{};
    Holding first{}, last{};
  };
  static constexpr int64_t kGrowthKib = 8 * 1024;
  static constexpr int kStepMs = 20;
  static constexpr int64_t kLongSeconds = 600;
  static constexpr int kMostGenerations = 1200;
  const int64_t length_, apart_;  // seconds: of the steps alone, and between two faults
  const uint64_t seed_;
  std::mt19937_64 dice_;
  std::vector<Holding> samples_, of_ranks_;
  std::map<pid_t, Life> lives_;
  int done_ = 0;
};

TEST_F(SoakTest, Row27RandomFaultsChangeNoBit) {
  SCOPED_TRACE(fmt::format("TESSERA_SOAK_SEED={} TESSERA_SOAK_SECONDS={}", seed_, length_));
  run_undisturbed();
  if (HasFatalFailure()) return;
  const Clock::time_point begin = Clock::now();
  Command command(folder_,
                  words_of(run_line("out",
                                    "--restarts 100000 --spares 1 --compare-replicas 5 "
                                    "--elastic min=2,max=3,grow=40 "
                                    "--hung-after 3 --stopped-after 0.5 --stopped-grace 0.5")),
                  with_fault(faults_by_generation()));
  agent_ = command.pid();
  ASSERT_TRUE(disturb()) << "it does not end";
  const CommandResult result = command.finish();
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  ASSERT_EQ(result.code, 0) << result.err.substr(0, 4000);
  expect_same_as_undisturbed();
  expect_good_checkpoints();
  expect_nothing_left();
  expect_no_growth("agent", samples_);
  expect_no_growth("ranks", of_ranks_);
  expect_no_rank_grew();
  EXPECT_GT(events("restart").size(), 0U) << "nothing happened";
  const double good = goodput();
  size_t from_memory = 0;
  for (const nlohmann::json& event : events("resume")) {
    from_memory += event.value("memory", false) ? 1 : 0;
  }
  fmt::print(
      "seed {}: {} faults from outside, {} verdicts, {} restarts, {} of {} resumes from memory, "
      "{} times fewer ranks and {} times more, {} saves that failed; goodput {:.1f} % of {:.0f} "
      "s\n",
      seed_, done_, events("verdict").size(), events("restart").size(), from_memory,
      events("resume").size(), events("shrink").size(), events("grow").size(),
      events("save failed").size(), 100 * good, took);
  if (length_ < kLongSeconds) return;
  // Others that want the cores make every start of ranks take longer.
  double load = 0;
  const bool known = ::getloadavg(&load, 1) == 1;
  if (known && load <= 2.0 * std::thread::hardware_concurrency()) {
    EXPECT_GE(good, 0.8);
  } else {
    fmt::print("goodput is not compared: the machine is busy (load {:.1f})\n", load);
  }
  EXPECT_GT(from_memory, 0U);
  EXPECT_GT(events("shrink").size(), 0U);
  EXPECT_GT(events("grow").size(), 0U);
}

}  // namespace
}  // namespace tessera::testing
