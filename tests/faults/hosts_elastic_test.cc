// Row 26 of the matrix of faults on several hosts: hosts leave and come back, replicas with them,
// and the run has the bits of one that nothing happened to.
#include "faults/hosts_run.h"
#include "faults/lanes_run.h"

namespace tessera::testing {
namespace {

class HostsElasticTest : public HostsRun<LanesRunTest> {
 protected:
  static constexpr const char* kSlowSteps = "step.begin:generation=0,act=delay=700";

  HostsElasticTest() {
    hosts_ = 3;
    use("dp=3");
  }
  [[nodiscard]] HostSetting as(const std::string& flags = "") const {
    return {.fault = kSlowSteps,
            .flags = "--restarts 2 --host-lease 1 --elastic min=2,max=3" + flags};
  }
  void await_generation(const std::string& change, size_t times = 1) {
    ASSERT_TRUE(wait_until([&] { return events(change).size() >= times; })) << said();
  }
  void expect_three_end_well(Command& first, Command& second, Command& third) {
    EXPECT_EQ(first.finish().code, 0) << said();
    EXPECT_EQ(second.finish().code, 0) << said();
    EXPECT_EQ(third.finish().code, 0) << said();
    expect_fixed_run();
    expect_good_checkpoints();
    expect_all_gone();
  }
};

TEST_F(HostsElasticTest, Row26AHostIsLostAndComesBack) {
  Command& first = start(0, as());
  Command& second = start(1, as());
  Command& third = start(2, as());
  await_steps(4);
  ::kill(second.pid(), SIGKILL);
  EXPECT_EQ(second.finish().code, 128 + SIGKILL);
  await_generation("shrink");
  Command& again = start(1, as(), "-again");
  expect_three_end_well(first, again, third);
  expect_sizes({{"shrink", 2}, {"grow", 3}});
  EXPECT_EQ(events("restart").size(), 1U);
  EXPECT_EQ(events("grow").at(0).at("reason"), "a host has come");
}

TEST_F(HostsElasticTest, Row26GrowsWhenAskedAlthoughItsTimeHasNotCome) {
  Command& first = start(0, as(",grow=1000"));
  Command& second = start(1, as(",grow=1000"));
  Command& third = start(2, as(",grow=1000"));
  await_steps(4);
  ::kill(third.pid(), SIGKILL);
  EXPECT_EQ(third.finish().code, 128 + SIGKILL);
  await_generation("shrink");
  Command& again = start(2, as(",grow=1000"), "-again");
  const size_t before = steps_done();
  await_steps(before + 2);
  EXPECT_TRUE(events("grow").empty());
  second.signal(SIGUSR2);
  expect_three_end_well(first, second, again);
  expect_sizes({{"shrink", 2}, {"grow", 3}});
  EXPECT_EQ(events("grow").at(0).at("reason"), "SIGUSR2");
}

// What other numbers of ranks have left in memory says nothing to these, and is no damage.
TEST_F(HostsElasticTest, Row26WithSnapshotsInMemory) {
  const std::string memory = " --set checkpoint.memory_every=2 --set checkpoint.every=5";
  Command& first = start(0, as(memory));
  Command& second = start(1, as(memory));
  Command& third = start(2, as(memory));
  await_steps(4);
  ::kill(second.pid(), SIGKILL);
  EXPECT_EQ(second.finish().code, 128 + SIGKILL);
  await_generation("shrink");
  Command& again = start(1, as(memory), "-again");
  expect_three_end_well(first, again, third);
  expect_sizes({{"shrink", 2}, {"grow", 3}});
  EXPECT_EQ(said().find("cannot be used"), std::string::npos) << said();
  EXPECT_EQ(said().find("is passed over"), std::string::npos) << said();
}

TEST_F(HostsElasticTest, NeverWithFewerThanTheLeast) {
  const HostSetting few{.fault = kSlowSteps,
                        .flags = "--restarts 2 --host-lease 1 --host-wait 3 --elastic min=2,max=3"};
  Command& first = start(0, few);
  Command& second = start(1, few);
  Command& third = start(2, few);
  await_steps(2);
  for (Command* host : {&second, &third}) ::kill(host->pid(), SIGKILL);
  EXPECT_EQ(first.finish().code, 69) << said();
  EXPECT_NE(said().find("of 3 hosts are there: waited 3 s for host"), std::string::npos) << said();
  expect_all_gone();
}

TEST_F(HostsElasticTest, RefusesWhatCannotChangeByWholeHosts) {
  folder_.write("run.toml", lanes_run_file("dp=2", ""));
  CommandOptions options;
  options.environment = {"TESSERA_RUN_TOKEN=a-secret-of-this-test"};
  const std::string line =
      "train run.toml -q --dry-run --hosts 2 --host-rank 0 --meet 127.0.0.1:1 --restarts 1 "
      "--elastic "
      "min=2,max=2";
  const CommandResult result = Command(folder_, words_of(line), options).finish();
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("replicas come and go with whole hosts of 1 rank"), std::string::npos)
      << result.err;
}

}  // namespace
}  // namespace tessera::testing
