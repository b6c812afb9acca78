// Runs on several hosts: rows 2 and 9 of the matrix of faults, and what a run says that cannot be.
#include "faults/hosts_run.h"

namespace tessera::testing {
namespace {

TEST_F(HostsTest, TrainsWithTheBitsOfOneHost) {
  Command& first = start(0);
  Command& second = start(1);
  expect_both_survive(first, second);
  EXPECT_TRUE(events("verdict").empty());
}

TEST_F(HostsTest, SeveralRanksOnEachHostAndEveryKindOfMesh) {
  for (const std::string mesh : {"dp=2,tp=2", "pp=2,fsdp=2,zero=3"}) {
    SCOPED_TRACE(mesh);
    const std::string flags = "--set train.dtype=bf16 --mesh " + mesh;
    const Undisturbed whole = undisturbed("--threads " + flags);
    std::filesystem::remove_all(folder_.path("out"));
    const HostSetting as{.fault = "step.backward:rank=2,step=5,act=kill",
                         .flags = "--restarts 1 " + flags};
    Command& first = start(0, as);
    Command& second = start(1, as);
    EXPECT_EQ(first.finish().code, 0) << said();
    EXPECT_EQ(second.finish().code, 0) << said();
    expect_same_as(whole);
    expect_verdict({.rank = 2, .phase = "step", .step = 5});
    expect_all_gone();
    commands_.clear();
  }
}

TEST_F(HostsTest, Row2ARankIsLostOnAnyHost) {
  for (const int rank : {0, 1}) {
    SCOPED_TRACE(rank);
    std::filesystem::remove_all(folder_.path("out"));
    const HostSetting as{.fault = fmt::format("step.backward:rank={},step=5,act=kill", rank)};
    Command& first = start(0, as);
    Command& second = start(1, as);
    expect_both_survive(first, second);
    expect_verdict({.rank = rank, .phase = "step", .step = 5});
    ASSERT_EQ(events("restart").size(), 1U);
    EXPECT_EQ(events("restart")[0].at("generation"), 2);
    commands_.clear();
  }
}

TEST_F(HostsTest, Row1ARankIsLostWhileAllMeet) {
  const HostSetting as{.fault = "rdzv.join:rank=1,act=kill"};
  Command& first = start(0, as);
  Command& second = start(1, as);
  expect_both_survive(first, second);
  expect_verdict({.rank = 1, .phase = "setup", .step = 0});
}

TEST_F(HostsTest, Row9TheCoordinatorIsKilledAndTheRunDoesNotNotice) {
  Command& first = start(0, {.fault = kSlow});
  Command& second = start(1, {.fault = kSlow});
  await_steps(2);
  const pid_t coordinator = child_called(first.pid(), "tessera-coord");
  ASSERT_GT(coordinator, 0);
  ::kill(coordinator, SIGKILL);
  expect_both_survive(first, second);
  EXPECT_TRUE(events("verdict").empty());
  EXPECT_NE(said().find("was killed by SIGKILL: it is started again"), std::string::npos) << said();
}

TEST_F(HostsTest, Row9AfterItsCoordinatorHasBeenKilledTheGenerationStillGrows) {
  Command& first = start(0, {.fault = kSlow});
  Command& second = start(1, {.fault = kSlow});
  await_steps(2);
  ::kill(child_called(first.pid(), "tessera-coord"), SIGKILL);
  await_steps(4);
  ::kill(ranks_on(second).at(1), SIGKILL);
  expect_both_survive(first, second);
  expect_verdict({.rank = 1});
  ASSERT_EQ(events("restart").size(), 1U);
  EXPECT_EQ(events("restart")[0].at("generation"), 2);
}

// The first host is lost as a whole, and started again by whoever started it before.
TEST_F(HostsTest, Row9TheAgentOfHost0IsKilledAndStartedAgain) {
  const HostSetting as{.fault = kSlow, .flags = "--restarts 2 --host-lease 4"};
  Command& first = start(0, as);
  Command& second = start(1, as);
  await_steps(4);
  const std::map<int, pid_t> ranks = ranks_on(first);
  ASSERT_EQ(ranks.size(), 1U);
  const std::vector<pid_t> children = children_of(first.pid());
  first.signal(SIGKILL);
  EXPECT_TRUE(wait_until([&] { return !is_running(ranks.at(0)); }, std::chrono::seconds(1)));
  for (const pid_t child : children) EXPECT_TRUE(wait_until([&] { return !is_running(child); }));
  EXPECT_EQ(first.finish().code, 128 + SIGKILL);
  Command& again = start(0, as, "-again");
  expect_both_survive(again, second);
  ASSERT_EQ(events("restart").size(), 1U);
  EXPECT_EQ(events("restart")[0].at("generation"), 2);
}

TEST_F(HostsTest, Row9TheAgentOfAnotherHostIsKilledAndStartedAgain) {
  const HostSetting as{.fault = kSlow, .flags = "--restarts 2 --host-lease 4"};
  Command& first = start(0, as);
  Command& second = start(1, as);
  await_steps(4);
  ::kill(second.pid(), SIGKILL);
  EXPECT_EQ(second.finish().code, 128 + SIGKILL);
  Command& again = start(1, as, "-again");
  expect_both_survive(first, again);
  ASSERT_EQ(events("restart").size(), 1U);
}

// What holds the ranks of a host, not the agent.
TEST_F(HostsTest, Row9TheKeeperOfRanksIsKilled) {
  Command& first = start(0, {.fault = kSlow});
  Command& second = start(1, {.fault = kSlow});
  await_steps(2);
  ::kill(child_called(second.pid(), "tessera-ranks"), SIGKILL);
  expect_both_survive(first, second);
  EXPECT_EQ(events("restart").size(), 1U);
}

TEST_F(HostsTest, AHostThatDoesNotComeEndsTheRunWith69) {
  const CommandResult result = start(0, {.flags = "--restarts 1 --host-wait 1"}).finish();
  EXPECT_EQ(result.code, 69);
  EXPECT_NE(result.err.find("1 of 2 hosts are there: waited 1 s for host 1; start it, or a spare "
                            "(--host-rank 2)"),
            std::string::npos)
      << result.err;
  expect_all_gone();
}

TEST_F(HostsTest, AHostWithoutACoordinatorEndsWith75) {
  const CommandResult result = start(1, {.flags = "--host-wait 1"}).finish();
  EXPECT_EQ(result.code, 75);
  EXPECT_NE(result.err.find("start this command again when host 0 can be reached"),
            std::string::npos)
      << result.err;
}

// Each host says the same to whoever starts it.
TEST_F(HostsTest, Row14ASignalToAnyHostSavesAndAsksToBeStartedAgain) {
  for (const int told : {0, 1}) {
    SCOPED_TRACE(told);
    std::filesystem::remove_all(folder_.path("out"));
    Command& first = start(0, {.fault = kSlow});
    Command& second = start(1, {.fault = kSlow});
    await_steps(2);
    (told == 0 ? first : second).signal(SIGTERM);
    const CommandResult one = first.finish();
    const CommandResult other = second.finish();
    EXPECT_EQ(one.code, 85) << said();
    EXPECT_EQ(other.code, 85) << said();
    EXPECT_TRUE(events("restart").empty());
    expect_all_gone();
    commands_.clear();
    Command& third = start(0);
    Command& fourth = start(1);
    expect_both_survive(third, fourth);
    EXPECT_TRUE(events("verdict").empty());
    commands_.clear();
  }
}

TEST_F(HostsTest, OutOfRestartsAllEndWithTheCodeOfTheLastFailure) {
  const HostSetting as{.fault = "step.begin:rank=1,step=5,generation=0,act=kill",
                       .flags = "--restarts 1"};
  Command& first = start(0, as);
  Command& second = start(1, as);
  EXPECT_EQ(first.finish().code, 1);
  EXPECT_EQ(second.finish().code, 1);
  EXPECT_NE(said().find("started again 1 time before"), std::string::npos) << said();
  expect_all_gone();
}

// What the first coordinator has counted the second one counts on.
TEST_F(HostsTest, Row9AnotherCoordinatorEndsAStepThatFailsAgainAndAgain) {
  const HostSetting as{.fault =
                           "step.begin:rank=1,step=5,generation=0,act=kill;"
                           "step.begin:rank=0,step=4,generation=2,act=delay=3000",
                       .flags = "--restarts 5"};
  Command& first = start(0, as);
  Command& second = start(1, as);
  ASSERT_TRUE(wait_until([&] { return events("resume").size() == 1; })) << said();
  ::kill(child_called(first.pid(), "tessera-coord"), SIGKILL);
  EXPECT_EQ(first.finish().code, 78);
  EXPECT_EQ(second.finish().code, 78);
  EXPECT_EQ(events("restart").size(), 2U);
  EXPECT_NE(said().find("step 5 has failed 3 times, on ranks 1, 1 and 1"), std::string::npos)
      << said();
  expect_all_gone();
}

TEST_F(HostsTest, FlagsThatDoNotGoTogetherSayWhatToDo) {
  for (const auto& [flags, text] :
       {std::pair("--hosts 2 --host-rank 0", "--meet ADDRESS:PORT"),
        std::pair("--hosts 2 --meet 127.0.0.1:1", "--host-rank 0 to 1"),
        std::pair("--host-rank 1", "say on how many with --hosts N"),
        std::pair("--hosts 1 --host-rank 0 --meet 127.0.0.1:1", "needs no --hosts"),
        std::pair("--hosts 2 --host-rank 0 --meet 127.0.0.1", "as in --meet 10.0.0.5:29500"),
        std::pair("--hosts 2 --host-rank 0 --meet 127.0.0.1:1 --threads", "leave out --threads"),
        std::pair("--hosts 2 --host-rank 0 --meet 127.0.0.1:1 --restarts 1 --spares 1",
                  "a spare is a host"),
        std::pair("--hosts 2 --host-rank 0 --meet 127.0.0.1:1", "export TESSERA_RUN_TOKEN="),
        std::pair("--hosts 2 --host-rank 0 --meet 10.0.0.5:1", "export TESSERA_RUN_TOKEN=")}) {
    const CommandResult result = run(std::string("train run.toml -q ") + flags);
    EXPECT_EQ(result.code, 2) << flags;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
  }
  CommandOptions options;
  options.environment = {"TESSERA_RUN_TOKEN=a-secret-of-this-test"};
  const std::string line = "train run.toml -q --hosts 3 --host-rank 0 --meet 127.0.0.1:1";
  const CommandResult result = Command(folder_, words_of(line), options).finish();
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("use a number of hosts that "), std::string::npos) << result.err;
}

}  // namespace
}  // namespace tessera::testing
