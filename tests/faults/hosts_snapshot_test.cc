// Row 2 of the matrix of faults on several hosts, with snapshots in memory: each host keeps those
// of its ranks, and a run goes on from the newest that all hosts have.
#include "base/testing/share.h"
#include "faults/hosts_run.h"

namespace tessera::testing {
namespace {

class HostsSnapshotTest : public HostsTest {
 protected:
  static constexpr const char* kFlags =
      "--restarts 3 --set checkpoint.every=5 --set checkpoint.memory_every=2 ";

  // Gives all ranks the time to seal before the step.
  static std::string pause(int step, int generation = 1) {
    return fmt::format("step.begin:step={},generation={},act=delay=700;", step, generation);
  }
  // Steps that resumes went on from, negative: from disk.
  [[nodiscard]] std::vector<int64_t> resumed() const {
    std::vector<int64_t> steps;
    for (const nlohmann::json& event : events("resume")) {
      const auto step = event.at("step").get<int64_t>();
      steps.push_back(event.value("memory", false) ? step : -step);
    }
    return steps;
  }
  using Steps = std::vector<int64_t>;
};

TEST_F(HostsSnapshotTest, Row2GoesOnFromTheNewestInMemory) {
  for (const int rank : {0, 1}) {
    SCOPED_TRACE(rank);
    std::filesystem::remove_all(folder_.path("out"));
    commands_.clear();
    const HostSetting as{
        .fault = pause(5) + fmt::format("step.backward:rank={},step=5,act=kill", rank),
        .flags = kFlags};
    Command& first = start(0, as);
    Command& second = start(1, as);
    expect_both_survive(first, second);
    expect_verdict({.rank = rank, .phase = "step", .step = 5});
    EXPECT_EQ(resumed(), (Steps{4}));
  }
}

// Every rank has only its part, and gets those of other hosts over its connections.
TEST_F(HostsSnapshotTest, Row2OnEveryKindOfMesh) {
  const std::vector<std::string> meshes = {"tp=2,dp=2,zero=1", "pp=2,fsdp=2,zero=3", "dp=4,zero=2",
                                           "dp=2,cp=2"};
  for (const std::string& mesh : testing::share_of(meshes, 2)) {
    SCOPED_TRACE(mesh);
    const std::string flags =
        kFlags + ("--set checkpoint.async=true --set train.dtype=bf16 --mesh " + mesh);
    const Undisturbed whole = undisturbed("--threads --set train.dtype=bf16 --mesh " + mesh);
    std::filesystem::remove_all(folder_.path("out"));
    commands_.clear();
    const HostSetting as{.fault = pause(5) + "step.backward:rank=3,step=5,act=kill",
                         .flags = flags};
    Command& first = start(0, as);
    Command& second = start(1, as);
    EXPECT_EQ(first.finish().code, 0) << said();
    EXPECT_EQ(second.finish().code, 0) << said();
    expect_same_as(whole);
    EXPECT_EQ(resumed(), (Steps{4}));
    expect_good_checkpoints();
    expect_all_gone();
  }
}

// The snapshots of a host are lost with its agent.
TEST_F(HostsSnapshotTest, Row2AHostThatIsLostTakesItsSnapshotsAlong) {
  const HostSetting as{.fault = kSlow, .flags = std::string(kFlags) + "--host-lease 2"};
  Command& first = start(0, as);
  Command& second = start(1, as);
  await_steps(6);
  ::kill(second.pid(), SIGKILL);
  EXPECT_EQ(second.finish().code, 128 + SIGKILL);
  Command& again = start(1, as, "-again");
  expect_both_survive(first, again);
  EXPECT_EQ(resumed(), (Steps{-5}));
}

}  // namespace
}  // namespace tessera::testing
