// Rows 11, 12 and 13 of the matrix of faults on several hosts: ranks whose processes are there and
// do not go on, found by whoever sees all hosts.
#include "faults/hosts_run.h"

namespace tessera::testing {
namespace {

class HostsStandstillTest : public HostsTest {
 protected:
  void run_both(const HostSetting& as) {
    Command& first = start(0, as);
    Command& second = start(1, as);
    expect_both_survive(first, second);
  }
};

// The only rank of its host: that host alone cannot say that it is no pause of the whole job.
TEST_F(HostsStandstillTest, Row11StoppedForEver) {
  run_both({.fault = "step.forward:rank=1,step=5,at=1,act=stop",
            .flags = "--restarts 1 --stopped-after 0.2 --stopped-grace 0.4"});
  expect_verdict({.verdict = "stopped", .rank = 1, .phase = "step", .step = 5});
  const std::vector<nlohmann::json> verdicts = events("verdict");
  ASSERT_EQ(verdicts.size(), 2U);
  EXPECT_EQ(verdicts[1].at("verdict"), "lost");
  EXPECT_EQ(verdicts[1].at("rank"), 1);
  EXPECT_NE(said().find("was stopped for "), std::string::npos) << said();
  ASSERT_EQ(events("restart").size(), 1U);
  EXPECT_EQ(events("restart")[0].at("reason"), "stopped");
}

TEST_F(HostsStandstillTest, Row11StoppedForAWhile) {
  // The wait in step 6 leaves its agent time to see that it goes on.
  const HostSetting as{.fault =
                           "step.forward:rank=1,step=5,at=1,act=stop;"
                           "step.begin:rank=1,step=6,act=delay=1000",
                       .flags = "--restarts 1 --stopped-after 0.2 --stopped-grace 60"};
  Command& first = start(0, as);
  Command& second = start(1, as);
  ASSERT_TRUE(wait_until([&] { return !events("verdict").empty(); })) << said();
  ::kill(ranks_on(second).at(1), SIGCONT);
  expect_both_survive(first, second);
  expect_verdict({.verdict = "stopped", .rank = 1, .phase = "step", .step = 5});
  EXPECT_EQ(events("goes on").size(), 1U);
  EXPECT_TRUE(events("restart").empty());
}

TEST_F(HostsStandstillTest, Row12SlowIsSaidAndNothingElseHappens) {
  const HostSetting as{
      .fault = "step.begin:rank=1,act=delay=20",
      .flags =
          "--set train.steps=60 --set checkpoint.every=0 --set checkpoint.every_minutes=60 "
          "--restarts 1 --hung-after 60"};
  Command& first = start(0, as);
  Command& second = start(1, as);
  EXPECT_EQ(first.finish().code, 0) << said();
  EXPECT_EQ(second.finish().code, 0) << said();
  ASSERT_EQ(events("verdict").size(), 1U);
  expect_verdict({.verdict = "slow", .rank = 1, .phase = "step", .step = 50});
  EXPECT_TRUE(events("restart").empty());
}

TEST_F(HostsStandstillTest, Row13ARankThatSpinsOrSleepsIsNamedAndNotItsVictims) {
  for (const int rank : {0, 1}) {
    SCOPED_TRACE(rank);
    std::filesystem::remove_all(folder_.path("out"));
    commands_.clear();
    const std::string act = rank == 0 ? "delay=60000" : "spin";
    run_both({.fault = fmt::format("step.backward:rank={},step=5,at=1,act={}", rank, act),
              .flags = "--restarts 1 --hung-after 2"});
    expect_verdict({.verdict = "hung", .rank = rank, .phase = "step", .step = 5});
    ASSERT_EQ(events("restart").size(), 1U);
    EXPECT_EQ(events("restart")[0].at("reason"), "hung");
    const nlohmann::json verdict = events("verdict").at(0);
    ASSERT_EQ(verdict.at("ranks").size(), 2U) << verdict;
    const auto text_of = [&](int i) {
      return verdict.at("ranks")[static_cast<size_t>(i)].get<std::string>();
    };
    EXPECT_NE(text_of(rank).find("waits for nobody"), std::string::npos) << verdict;
    EXPECT_NE(text_of(rank).find("; at compute: instruction "), std::string::npos) << verdict;
    EXPECT_NE(text_of(1 - rank).find(fmt::format("waits for rank {}", rank)), std::string::npos)
        << verdict;
    EXPECT_NE(text_of(1 - rank).find(" of group "), std::string::npos) << verdict;
    EXPECT_NE(verdict.at("at").get<std::string>().find("tessera::Failpoints::pass"),
              std::string::npos)
        << verdict;
    const std::string stacks =
        read_file(folder_.path("out/" + verdict.at("stacks").get<std::string>()));
    for (const char* part : {"rank 0 (pid ", "rank 1 (pid ", "tessera::Failpoints::pass"}) {
      EXPECT_NE(stacks.find(part), std::string::npos) << part << "\n" << stacks;
    }
  }
}

}  // namespace
}  // namespace tessera::testing
