// Rows 11, 12 and 13 of the matrix of faults: ranks whose processes are there and do not go on.
#include "base/testing/share.h"
#include "faults/fault_run.h"

namespace tessera::testing {
namespace {

class StandstillTest : public FaultTest {
 protected:
  // Where every rank is: the instruction, the call of the hung one, the calls of all threads.
  void expect_whereabouts(const nlohmann::json& verdict, int rank) {
    const auto text_of = [&](int i) {
      return verdict.at("ranks")[static_cast<size_t>(i)].get<std::string>();
    };
    EXPECT_NE(text_of(rank).find("; at compute: instruction "), std::string::npos) << verdict;
    EXPECT_NE(text_of(rank).find("', micro-batch 0"), std::string::npos) << verdict;
    EXPECT_NE(text_of(1 - rank).find(" of group "), std::string::npos) << verdict;
    EXPECT_NE(verdict.at("at").get<std::string>().find("tessera::Failpoints::pass"),
              std::string::npos)
        << verdict;
    const std::string stacks =
        read_file(folder_.path("out/" + verdict.at("stacks").get<std::string>()));
    for (const char* part : {"rank 0 (pid ", "rank 1 (pid ", "tessera::Failpoints::pass",
                             "tessera::wait_at_least", ", step 5, "}) {
      EXPECT_NE(stacks.find(part), std::string::npos) << part << "\n" << stacks;
    }
  }

  // With small bounds; rank 1 stops itself in step 5.
  Command stopped_run(const std::string& flags) {
    return Command(folder_,
                   words_of("train run.toml -q --set logging.run_dir=out --restarts 1 "
                            "--stopped-after 0.1 " +
                            flags),
                   with_fault("step.forward:rank=1,step=5,at=1,act=stop"));
  }
};

TEST_F(StandstillTest, Row11StoppedForEver) {
  Command command = stopped_run("--stopped-grace 0.2");
  agent_ = command.pid();
  const CommandResult result = command.finish();
  expect_survived(result, {.verdict = "stopped", .rank = 1, .phase = "step", .step = 5});
  const std::vector<nlohmann::json> verdicts = events("verdict");
  ASSERT_EQ(verdicts.size(), 2U);
  EXPECT_EQ(verdicts[1].at("verdict"), "lost");
  const auto noticed = verdicts[0].at("seconds").get<double>();
  fmt::print("noticed after {:.2f} s, killed {:.2f} s later\n", noticed,
             verdicts[1].at("time").get<double>() - verdicts[0].at("time").get<double>());
  EXPECT_LE(noticed, 0.1 + 3 * 1);  // beyond --stopped-after
  EXPECT_EQ(verdicts[1].at("rank"), 1);
  EXPECT_NE(result.err.find("was stopped for "), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("out of memory"), std::string::npos) << result.err;
}

TEST_F(StandstillTest, Row11StoppedForAWhile) {
  Command command = stopped_run("--stopped-grace 60");
  agent_ = command.pid();
  ASSERT_TRUE(wait_until([&] { return !events("verdict").empty(); }));
  ::kill(ranks_of(agent_).at(1), SIGCONT);
  expect_survived(command.finish(), {.verdict = "stopped", .rank = 1, .phase = "step", .step = 5},
                  0);
  EXPECT_EQ(events("goes on").size(), 1U);
}

TEST_F(StandstillTest, Row12SlowIsSaidAndNothingElseHappens) {
  const std::string flags =
      "--set train.steps=60 --set checkpoint.every=0 --set checkpoint.every_minutes=60 "
      "--restarts 1 --hung-after 60";
  const CommandResult result = train("step.begin:rank=1,act=delay=20", flags);
  EXPECT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(events("verdict").size(), 1U);
  expect_verdict({.verdict = "slow", .rank = 1, .phase = "step", .step = 50});
  EXPECT_TRUE(events("restart").empty());
  EXPECT_NE(result.err.find("rank 1 is slow: "), std::string::npos) << result.err;
  expect_nothing_left();
}

// 200 ms in every step, as long as the whole window; under --all, for it takes a while.
TEST_F(StandstillTest, Row12FifthsOfASecondAreNamedInFiftySteps) {
  if (!tries_all()) GTEST_SKIP() << "takes ten seconds: TESSERA_TEST_ALL";
  const CommandResult result =
      train("step.begin:rank=1,act=delay=200",
            "--set train.steps=52 --set checkpoint.every=0 --set checkpoint.every_minutes=60 "
            "--restarts 1 --hung-after 60");
  EXPECT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(events("verdict").size(), 1U);
  expect_verdict({.verdict = "slow", .rank = 1, .phase = "step", .step = 50});
  EXPECT_TRUE(events("restart").empty());
}

// Ranks that do the same are never told apart, in twenty windows of fifty steps.
TEST_F(StandstillTest, Row12AThousandCleanStepsNameNobody) {
  const CommandResult result =
      train("",
            "--set train.steps=1000 --set checkpoint.every=0 --set checkpoint.every_minutes=60 "
            "--set logging.every=100 --restarts 1");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(events("verdict").empty()) << read_file(folder_.path("out/events.jsonl"));
  const std::vector<nlohmann::json> metrics = read_metrics(folder_.path("out/metrics.jsonl"));
  EXPECT_EQ(metrics.back().at("samples_hash"), hash_of_samples(1000 * kBatch));
}

TEST_F(StandstillTest, Row13ARankThatSpinsOrSleepsIsNamedAndNotItsVictims) {
  for (const int rank : {0, 1}) {
    SCOPED_TRACE(rank);
    const CommandResult result = train(fmt::format("step.backward:rank={},step=5,at=1,act={}", rank,
                                                   rank == 0 ? "delay=60000" : "spin"),
                                       "--restarts 1 --hung-after 2");
    expect_survived(result, {.verdict = "hung", .rank = rank, .phase = "step", .step = 5});
    const nlohmann::json verdict = events("verdict").at(0);
    ASSERT_EQ(verdict.at("ranks").size(), 2U);
    EXPECT_NE(
        verdict.at("ranks")[static_cast<size_t>(rank)].get<std::string>().find("waits for nobody"),
        std::string::npos)
        << verdict;
    EXPECT_NE(result.err.find(fmt::format("rank {} (pid ", rank)), std::string::npos) << result.err;
    expect_whereabouts(verdict, rank);
  }
}

// Where those that wait give up first, they do not take the blame.
TEST_F(StandstillTest, Row13ARankThatIsWaitedForTooLongIsNamed) {
  const CommandResult result = train("step.backward:rank=1,step=5,at=1,act=delay=60000",
                                     "--restarts 1 --spares 1 --comm-timeout 3");
  expect_survived(result, {.verdict = "lost", .rank = 1, .phase = "step", .step = 5});
  EXPECT_EQ(events("restart").at(0).at("reason"), "hung");
  ASSERT_EQ(events("spare").size(), 1U);
  EXPECT_EQ(events("spare")[0].at("rank"), 1);
}

}  // namespace
}  // namespace tessera::testing
