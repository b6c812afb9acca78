// The agent with real ranks: how jobs end, what is said, and that nothing is left of them.
#include "launch/agent/agent.h"

#include <sys/stat.h>

#include <filesystem>
#include <regex>

#include "base/testing/test_folder.h"
#include "launch/cores.h"
#include "launch/testing/test_process.h"

namespace tessera {
namespace {

using namespace tessera::testing;

// A job of this program: its agent, which has started `ranks` ranks that play `scene`.
struct Job : TestProcess {
  Job(int num_ranks, const std::string& scene, std::vector<std::string> agent = {},
      std::map<std::string, std::string> environment = {}, bool own_group = false)
      : TestProcess({.arguments = command(num_ranks, scene, std::move(agent)),
                     .environment = std::move(environment),
                     .own_group = own_group}),
        ranks(num_ranks) {}

  static std::vector<std::string> command(int num_ranks, const std::string& scene,
                                          std::vector<std::string> agent) {
    agent.insert(agent.begin(), {"--as-agent", fmt::format("ranks={}", num_ranks)});
    agent.emplace_back("--");
    size_t begin = 0;
    while (begin <= scene.size()) {
      const size_t end = std::min(scene.find(' ', begin), scene.size());
      agent.push_back(scene.substr(begin, end - begin));
      begin = end + 1;
    }
    return agent;
  }

  // The pids of all ranks, once they have said that they are ready.
  std::vector<pid_t> await_ranks() {
    std::vector<pid_t> pids;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string prefix = rank == 0 ? "" : fmt::format("\\[rank {}\\] ", rank);
      const std::regex line("(^|\n)" + prefix + "ready ([0-9]+)\n");
      std::smatch match;
      const auto deadline = Clock::now() + kHangs;
      while (!std::regex_search(out(), match, line)) {
        if (Clock::now() >= deadline) throw Error("rank " + std::to_string(rank) + " is not ready");
        read_some();
      }
      pids.push_back(std::stoi(match[2]));
    }
    return pids;
  }

  int ranks;
};

void expect_gone(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) EXPECT_TRUE(gone_soon(pid)) << pid;
}

size_t num_lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(AgentTest, EndsWithItsRanks) {
  Job job(3, "finish");
  const auto pids = job.await_ranks();
  EXPECT_EQ(job.finish().code, 0);
  EXPECT_EQ(job.err(), "");
  expect_gone(pids);
}

// Shared memory is counted for no process: without this the kernel would end bystanders first.
TEST(AgentTest, RanksGoFirstWhenMemoryRunsOut) {
  Job job(1, "oom_score");
  EXPECT_EQ(job.finish().code, 0);
  EXPECT_EQ(job.out(), "scores 1000 900\n");
}

TEST(AgentTest, TellsRanksWhoTheyAre) {
  Job job(2, "environment", {}, {{"MINE", "kept"}, {"TESSERA_RANK", "7"}});
  EXPECT_EQ(job.finish().code, 0);
  const auto num_cores = static_cast<int>(allowed_cores().size());
  for (int rank = 0; rank < 2; ++rank) {
    const int cpus = num_cores >= 2 ? num_cores * (rank + 1) / 2 - num_cores * rank / 2 : num_cores;
    const std::string line =
        fmt::format("{}rank {} of 2 local {} token 32 cpus {} ignores_int true mine kept\n",
                    rank == 0 ? "" : "[rank 1] ", rank, rank, cpus);
    EXPECT_TRUE(contains(job.out(), line)) << job.out();
  }
}

TEST(AgentTest, DoesNotPinMoreThreadsThanCores) {
  const int num_cores = static_cast<int>(allowed_cores().size());
  Job job(1, "environment", {fmt::format("threads={}", num_cores + 1)});
  EXPECT_EQ(job.finish().code, 0);
  EXPECT_TRUE(contains(job.out(), fmt::format("cpus {} ", num_cores))) << job.out();
}

struct ExitCase {
  int code;
  int job;
};
class ExitCodeTest : public ::testing::TestWithParam<ExitCase> {};

TEST_P(ExitCodeTest, BecomesTheCodeOfTheJob) {
  Job job(3, fmt::format("exit {} 1", GetParam().code));
  const auto pids = job.await_ranks();
  EXPECT_EQ(job.finish().code, GetParam().job);
  EXPECT_EQ(job.err(),
            fmt::format("tessera: rank 1 (pid {}) exited with code {}, last in barrier() #1 "
                        "of group world\n",
                        pids[1], GetParam().code));
  expect_gone(pids);
}

INSTANTIATE_TEST_SUITE_P(Codes, ExitCodeTest,
                         ::testing::Values(ExitCase{1, 1}, ExitCase{2, 2}, ExitCase{4, 4},
                                           ExitCase{9, 9}, ExitCase{64, 64}, ExitCase{78, 78},
                                           ExitCase{10, 1}, ExitCase{63, 1}, ExitCase{79, 1},
                                           ExitCase{130, 1}, ExitCase{255, 1}),
                         [](const auto& test) { return std::to_string(test.param.code); });

// The others end with code 1 because of it, some before it does.
TEST(AgentTest, PrintsWhatTheFailingRankSays) {
  for (int rank = 0; rank < 3; ++rank) {
    Job job(3, fmt::format("fail 5 {}", rank));
    const auto pids = job.await_ranks();
    EXPECT_EQ(job.finish().code, 5);
    EXPECT_TRUE(job.err().starts_with(fmt::format("tessera: rank {}: the disk is full", rank)))
        << job.err();
    EXPECT_TRUE(contains(job.err(), "was barrier() #1")) << job.err();
    EXPECT_EQ(num_lines(job.err()), 1U) << job.err();
    expect_gone(pids);
  }
}

TEST(AgentTest, NamesARankThatNeverJoined) {
  Job job(3, "exit_before_joining 2 1");
  EXPECT_EQ(job.finish().code, 2);
  EXPECT_TRUE(std::regex_match(
      job.err(), std::regex("tessera: rank 1 \\(pid [0-9]+\\) exited with code 2 before it joined "
                            "the others\n")))
      << job.err();
}

// Rank 1 ends in order, so peers may go on; but they must not wait for it until their timeout.
TEST(AgentTest, NamesARankThatNeverJoinedAndEndedWell) {
  Job job(3, "exit_before_joining 0 1");
  EXPECT_EQ(job.finish().code, 1);
  EXPECT_TRUE(contains(job.err(), "rank 1 exited with code 0 before it joined the others"))
      << job.err();
}

class KillTest : public ::testing::TestWithParam<int> {};

TEST_P(KillTest, EndsTheJobAndNamesTheRank) {
  Job job(3, "barriers");
  const auto pids = job.await_ranks();
  const pid_t victim = pids[static_cast<size_t>(GetParam())];
  const auto killed_at = Clock::now();
  ::kill(victim, SIGKILL);
  EXPECT_EQ(job.finish().code, 1);
  RecordProperty("milliseconds", static_cast<int>((Clock::now() - killed_at) / milliseconds(1)));
  EXPECT_TRUE(job.err().starts_with(fmt::format(
      "tessera: rank {} (pid {}) was killed by SIGKILL, last in barrier() #", GetParam(), victim)))
      << job.err();
  EXPECT_EQ(num_lines(job.err()), 1U) << job.err();
  expect_gone(pids);
}

INSTANTIATE_TEST_SUITE_P(Ranks, KillTest, ::testing::Values(0, 1, 2));

TEST(AgentTest, KillsRanksThatDoNotLeave) {
  Job job(3, "ignore_everything", {"leave_time=100"});
  const auto pids = job.await_ranks();
  ::kill(pids[1], SIGSEGV);
  EXPECT_EQ(job.finish().code, 1);
  EXPECT_TRUE(contains(job.err(), "was killed by SIGSEGV")) << job.err();
  EXPECT_TRUE(contains(job.err(), "; ranks 0 and 2 did not end in time and were killed\n"))
      << job.err();
  expect_gone(pids);
}

TEST(AgentTest, LetsARankLeaveEarly) {
  Job job(3, "leave_early 1 0");
  EXPECT_EQ(job.finish().code, 0);
  EXPECT_EQ(job.err(), "");
}

TEST(AgentTest, ReportsWaitingForARankThatLeft) {
  Job job(3, "leave_early 1 1");
  EXPECT_EQ(job.finish().code, 1);
  EXPECT_TRUE(contains(job.err(), "tessera: ")) << job.err();
  EXPECT_TRUE(contains(job.err(), "rank 1 (pid ")) << job.err();
}

struct StopCase {
  int signal;
  int code;
};
class StopTest : public ::testing::TestWithParam<StopCase> {};

// What the ranks print is theirs; the agent adds nothing.
TEST_P(StopTest, IsOverWhenTheRanksHaveStopped) {
  Job job(2, "stop_when_asked");
  const auto pids = job.await_ranks();
  const auto stopped_at = Clock::now();
  job.signal(GetParam().signal);
  EXPECT_EQ(job.finish().code, GetParam().code);
  RecordProperty("milliseconds", static_cast<int>((Clock::now() - stopped_at) / milliseconds(1)));
  expect_gone(pids);
}

TEST_P(StopTest, KillsRanksThatDoNotStop) {
  Job job(2, "ignore_everything");
  const auto pids = job.await_ranks();
  const auto stopped_at = Clock::now();
  job.signal(GetParam().signal);
  EXPECT_EQ(job.finish().code, GetParam().code);
  RecordProperty("milliseconds", static_cast<int>((Clock::now() - stopped_at) / milliseconds(1)));
  EXPECT_EQ(job.err(),
            fmt::format("tessera: stopped by {}; ranks 0-1 did not end in time and were killed\n",
                        signal_name(GetParam().signal)));
  expect_gone(pids);
}

// A shell sends ^C, and `timeout` and schedulers SIGTERM, to the whole group.
TEST_P(StopTest, MeansTheSameForTheWholeGroup) {
  Job job(3, "stop_when_asked", {}, {}, /*own_group=*/true);
  const auto pids = job.await_ranks();
  job.signal_group(GetParam().signal);
  EXPECT_EQ(job.finish().code, GetParam().code);
  EXPECT_EQ(job.err(), "");
  expect_gone(pids);
}

INSTANTIATE_TEST_SUITE_P(Signals, StopTest,
                         ::testing::Values(StopCase{SIGINT, 130}, StopCase{SIGTERM, 143},
                                           StopCase{SIGHUP, 129}, StopCase{SIGUSR1, 138},
                                           StopCase{SIGXCPU, 152}),
                         [](const auto& test) { return signal_name(test.param.signal); });

TEST(AgentTest, AbortsWaitsAfterTheGrace) {
  Job job(3, "one_ignores 2", {"grace=100"});
  const auto pids = job.await_ranks();
  job.signal(SIGINT);
  EXPECT_EQ(job.finish().code, 130);
  EXPECT_EQ(job.err(), "tessera: stopped by SIGINT; rank 2 did not end in time and was killed\n");
  expect_gone(pids);
}

TEST(AgentTest, SecondInterruptKillsAtOnce) {
  Job job(2, "ignore_everything", {"grace=600000"});
  const auto pids = job.await_ranks();
  job.signal(SIGINT);
  std::this_thread::sleep_for(milliseconds(300));
  job.signal(SIGINT);
  EXPECT_EQ(job.finish().code, 130);
  expect_gone(pids);
}

TEST(AgentTest, StopsAJobWithAStoppedRank) {
  Job job(2, "stop_when_asked", {"grace=100"});
  const auto pids = job.await_ranks();
  ::kill(pids[1], SIGSTOP);
  job.signal(SIGINT);
  EXPECT_EQ(job.finish().code, 130);
  expect_gone(pids);
}

TEST(AgentTest, RanksDieWithTheAgent) {
  Job job(3, "ignore_everything");
  const auto pids = job.await_ranks();
  job.signal(SIGKILL);
  EXPECT_EQ(job.finish().signal, SIGKILL);
  expect_gone(pids);
}

TEST(AgentTest, ForwardsWholeLines) {
  constexpr int kLines = 2000;
  Job job(3, fmt::format("lines {}", kLines));
  EXPECT_EQ(job.finish().code, 0);
  std::array<int, 3> next_out = {0, 0, 0};
  std::array<int, 3> next_err = {1, 1, 1};
  const std::regex form("(\\[rank ([12])\\] )?([0-2]):([0-9]+):([abc]*):");
  const auto check = [&](const std::string& text, std::array<int, 3>& next) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::smatch match;
      ASSERT_TRUE(std::regex_match(line, match, form)) << line;
      const int rank = std::stoi(match[3]);
      ASSERT_EQ(match[2].str(), rank == 0 ? "" : std::to_string(rank));
      const int i = std::stoi(match[4]);
      ASSERT_EQ(i, next[static_cast<size_t>(rank)]) << "lost, or out of order";
      ASSERT_EQ(match[5].str(),
                std::string(static_cast<size_t>(i * 7 % 200), static_cast<char>('a' + rank)));
      next[static_cast<size_t>(rank)] += 2;
    }
  };
  check(job.out(), next_out);
  check(job.err(), next_err);
  for (const int next : next_out) EXPECT_EQ(next, kLines);
  for (const int next : next_err) EXPECT_EQ(next, kLines + 1);
}

TEST(AgentTest, EndsALastLineWithoutNewline) {
  Job job(2, "text no-newline 1");
  EXPECT_EQ(job.finish().code, 0);
  EXPECT_TRUE(contains(job.out(), "[rank 1] no-newline\n")) << job.out();
  EXPECT_TRUE(contains(job.err(), "[rank 1] an error\n")) << job.err();
}

TEST(AgentTest, CutsALineThatHasNoEnd) {
  Job job(2, "text 0123456789 20000");
  EXPECT_EQ(job.finish().code, 0);
  size_t bytes = 0;
  std::istringstream lines(job.out());
  for (std::string line; std::getline(lines, line);) {
    // Rank 0 writes its own bytes, as they are.
    const size_t place = line.find("[rank 1] ");
    if (place != std::string::npos) bytes += line.size() - place - 9;
  }
  EXPECT_GE(bytes, 200'000U - 20U);
  EXPECT_GE(num_lines(job.out()), 4U);
}

TEST(AgentTest, WritesAFilePerRank) {
  const TestFolder folder;
  const std::string logs = folder.path("a/b");
  for (int round = 0; round < 2; ++round) {  // the second replaces the first
    Job job(3, fmt::format("lines {}", 10 - round), {"log_dir=" + logs});
    EXPECT_EQ(job.finish().code, 0);
    // Rank 0 is shown as well, on both streams, without a prefix.
    EXPECT_EQ(num_lines(job.out() + job.err()), static_cast<size_t>(10 - round)) << job.out();
    EXPECT_TRUE(job.out().starts_with("0:0::\n")) << job.out();
    EXPECT_TRUE(job.err().starts_with("0:1:")) << job.err();
  }
  for (int rank = 0; rank < 3; ++rank) {
    const std::string text = read_file(fmt::format("{}/rank-{}.log", logs, rank));
    EXPECT_EQ(num_lines(text), 9U) << text;
    // The two streams of rank 0 come through pipes, so their lines may change places.
    if (rank == 0) continue;
    EXPECT_TRUE(text.starts_with(fmt::format("{}:0::\n{}:1:", rank, rank))) << text;
  }
}

TEST(AgentTest, RefusesALogFolderThatCannotBe) {
  const TestFolder folder;
  folder.write("file", "");
  Job job(2, "finish", {"log_dir=" + folder.path("file/logs")});
  EXPECT_EQ(job.finish().code, 2);
  EXPECT_TRUE(contains(job.err(), "cannot create the log folder")) << job.err();
}

TEST(AgentTest, LogsGoThroughNoLinkAndWaitForNoPipe) {
  const TestFolder folder;
  const std::string victim = folder.write("victim", "precious");
  std::filesystem::create_directory(folder.path("logs"));
  const std::string log = folder.path("logs/rank-1.log");
  std::filesystem::create_symlink(victim, log);
  EXPECT_EQ(Job(2, "finish", {"log_dir=" + folder.path("logs")}).finish().code, 2);
  EXPECT_EQ(read_file(victim), "precious");
  std::filesystem::remove(log);
  ASSERT_EQ(::mkfifo(log.c_str(), 0600), 0);
  EXPECT_EQ(Job(2, "finish", {"log_dir=" + folder.path("logs")}).finish().code, 2);
}

TEST(AgentTest, EndsThoughNobodyReadsItsOutput) {
  Job job(2, "print_for_ever", {"grace=100"});
  job.await_output("ready ");
  std::this_thread::sleep_for(milliseconds(200));  // the pipes fill up
  job.signal(SIGINT);
  EXPECT_EQ(job.wait_without_reading().code, 130);
}

TEST(AgentTest, GoesOnWhenTheReaderOfItsOutputLeaves) {
  Job job(2, "text 0123456789 100000");
  job.close_out();
  const ChildExit exit = job.finish();
  // Rank 0, which writes itself, is killed as any program would be: nothing hangs, nobody is told.
  EXPECT_EQ(exit.code, 141);
  EXPECT_FALSE(contains(job.err(), "rank 0")) << job.err();
}

TEST(AgentTest, WorksWithoutStandardInput) {
  Job job(2, "finish", {"close_input=1"});
  EXPECT_EQ(job.finish().code, 0) << job.err();
}

TEST(AgentTest, SaysWhyAProgramCannotStart) {
  Job job(2, "finish", {"executable=/nowhere/program"});
  EXPECT_EQ(job.finish().code, 1);
  EXPECT_EQ(job.err(),
            "error: cannot start rank 0 (/nowhere/program): cannot execute the program: No such "
            "file or directory\n");
}

// A rank is started with three descriptors that are free again afterwards, which is enough for the
// pidfds of three ranks. Rank 4, which writes to a file and no pipe, has nothing that tells of it.
TEST(AgentTest, WatchesRanksWithoutPidfds) {
  const TestFolder folder;
  int max_files = 8;
  std::string refusal = "Too many open files";
  while (contains(refusal, "Too many open files")) {
    ASSERT_LT(++max_files, 20) << refusal;
    Job job(5, "exit_unnoticed 3 4",
            {fmt::format("max_files={}", max_files), "log_dir=" + folder.path("logs"),
             "leave_time=50"});
    const int code = job.finish().code;
    refusal = job.err();
    if (contains(refusal, "Too many open files")) continue;
    EXPECT_EQ(code, 3);
    EXPECT_TRUE(contains(job.err(), "tessera: rank 4 (pid ")) << job.err();
    EXPECT_TRUE(contains(job.err(), ") exited with code 3")) << job.err();
  }
}

TEST(AgentTest, SaysThatFilesAreUsedUp) {
  for (int max_files = 5; max_files <= 12; ++max_files) {
    Job job(4, "ignore_everything", {fmt::format("max_files={}", max_files)});
    EXPECT_EQ(job.finish().code, 1) << max_files;
    EXPECT_TRUE(contains(job.err(), "Too many open files")) << max_files << ": " << job.err();
  }
}

TEST(AgentTest, SaysThatProcessesAreUsedUp) {
  std::vector<std::string> agent;
  if (::geteuid() == 0) agent.emplace_back("user=nobody");  // root has no such limit
  agent.emplace_back("max_processes=1");
  Job job(2, "finish", agent);
  EXPECT_EQ(job.finish().code, 1);
  EXPECT_TRUE(contains(job.err(), "cannot start rank 0")) << job.err();
  EXPECT_TRUE(contains(job.err(), "cannot make a process")) << job.err();
  EXPECT_TRUE(contains(job.err(), "ulimit -u")) << job.err();
}

TEST(AgentTest, ChecksItsOptions) {
  for (const auto& bad : {AgentOptions{.ranks = 0}, AgentOptions{.threads_per_rank = 0},
                          AgentOptions{.grace = milliseconds(-1)}}) {
    EXPECT_THROW(run_agent(bad), ConfigError);
  }
}

}  // namespace
}  // namespace tessera
