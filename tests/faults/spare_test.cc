// Row 10 of the matrix of faults, and 9: spares, several ranks at once, and the agent itself.
#include "faults/fault_run.h"

namespace tessera::testing {
namespace {

class SpareTest : public FaultTest {
 protected:
  // Children of the agent that are no ranks.
  [[nodiscard]] std::vector<pid_t> spares() const {
    std::vector<pid_t> found;
    for (const pid_t child : children_of(agent_)) {
      if (variable_of(child, "TESSERA_SPARE_FD=")) found.push_back(child);
    }
    return found;
  }
  // Killed from outside once the metrics have a line; every step takes 40 ms.
  void begin(const std::string& flags) {
    command_.emplace(folder_, words_of("train run.toml -q --set logging.run_dir=out " + flags),
                     with_fault("step.begin:act=delay=40"));
    agent_ = command_->pid();
    ASSERT_TRUE(wait_until([&] {
      const std::string metrics = folder_.path("out/metrics.jsonl");
      return std::filesystem::exists(metrics) && std::filesystem::file_size(metrics) > 0;
    }));
  }

  std::optional<Command> command_;
};

TEST_F(SpareTest, TakesThePlaceOfALostRank) {
  for (const int rank : {0, 1}) {
    SCOPED_TRACE(rank);
    const CommandResult result =
        train(fmt::format("step.forward:rank={},step=5,act=kill", rank), "--restarts 1 --spares 1");
    expect_survived(result, {.rank = rank, .phase = "step", .step = 5});
    const std::vector<nlohmann::json> taken = events("spare");
    ASSERT_EQ(taken.size(), 1U);
    EXPECT_EQ(taken[0].at("rank"), rank);
    EXPECT_EQ(taken[0].at("generation"), 2);
    EXPECT_NE(result.err.find(fmt::format("the spare with pid {} is rank {} now",
                                          taken[0].at("pid").get<int>(), rank)),
              std::string::npos)
        << result.err;
  }
}

TEST_F(SpareTest, Row10ASpareThatIsKilledCostsNothing) {
  begin("--restarts 1 --spares 2");
  ASSERT_TRUE(wait_until([&] { return spares().size() == 2; }));
  ::kill(spares().front(), SIGKILL);
  const CommandResult result = command_->finish();
  EXPECT_EQ(result.code, 0) << result.err;
  expect_same_run();
  EXPECT_EQ(events("spare lost").size(), 1U);
  EXPECT_TRUE(events("verdict").empty());
  expect_nothing_left();
}

TEST_F(SpareTest, Row10AllRanksKilledAtOnce) {
  begin("--restarts 1 --spares 1");
  const std::map<int, pid_t> ranks = ranks_of(agent_);
  ASSERT_EQ(ranks.size(), 2U);
  for (const auto& [rank, pid] : ranks) ::kill(pid, SIGKILL);
  expect_survived(command_->finish(), {});
}

// One cause, whatever it took with it: two of four ranks, none of them rank 0, or one of them.
TEST_F(SpareTest, Row10TwoOfFourKilledAtOnce) {
  const std::string mesh = " --mesh dp=2,tp=2";
  const Undisturbed whole = undisturbed("--threads" + mesh);
  for (const auto& [one, other] : {std::pair(1, 2), {0, 3}}) {
    SCOPED_TRACE(one);
    std::filesystem::remove_all(folder_.path("out"));
    begin("--restarts 1 --spares 1" + mesh);
    const std::map<int, pid_t> ranks = ranks_of(agent_);
    ASSERT_EQ(ranks.size(), 4U);
    ::kill(ranks.at(one), SIGKILL);
    ::kill(ranks.at(other), SIGKILL);
    const CommandResult result = command_->finish();
    ASSERT_EQ(result.code, 0) << result.err;
    expect_same_as(whole);
    ASSERT_EQ(events("verdict").size(), 1U);
    const int named = events("verdict")[0].at("rank");
    EXPECT_TRUE(named == one || named == other) << named;
    EXPECT_EQ(events("restart").size(), 1U);
    expect_times();
    expect_good_checkpoints();
    expect_nothing_left();
  }
}

TEST_F(SpareTest, Row9NothingIsLeftOfAJobWhoseAgentIsKilled) {
  begin("--restarts 1 --spares 1");
  const auto killed = std::chrono::steady_clock::now();
  command_->signal(SIGKILL);
  command_->finish();
  expect_nothing_left();
  const double gone =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - killed).count();
  fmt::print("no process was left after {:.2f} s\n", gone);
  EXPECT_LE(gone, 3 * 1);
  // The run goes on, with its bits, when somebody starts it again.
  const CommandResult result =
      run("train run.toml -q --set logging.run_dir=out --resume auto --overwrite");
  EXPECT_EQ(result.code, 0) << result.err;
  expect_same_run();
}

TEST_F(SpareTest, NeedsRestarts) {
  const CommandResult result = train("", "--spares 1");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("add --restarts 1"), std::string::npos) << result.err;
}

// Each is a process: so many would take the machine.
TEST_F(SpareTest, ThereAreNoMoreThanRanks) {
  const CommandResult result = train("", "--restarts 1 --spares 100000");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("--spares 100000: the run has 2 ranks"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("use at most 2"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace tessera::testing
