// Rows 2 and 3 of the matrix of faults, with snapshots in memory: a run goes on from what its lost
// ranks have left there.
#include "base/testing/share.h"
#include "faults/fault_run.h"

namespace tessera::testing {
namespace {

class SnapshotTest : public FaultTest {
 protected:
  // Copies in memory are newer than those on disk but where a test wants it otherwise.
  static constexpr const char* kFlags =
      "--restarts 3 --set checkpoint.every=5 --set checkpoint.memory_every=2 ";

  // Gives all ranks the time to seal before the step: what counts is then no matter of luck.
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

TEST_F(SnapshotTest, Row2GoesOnFromTheNewestInMemory) {
  for (const std::string async : {"false", "true"}) {
    for (const std::string point : {"step.begin", "step.backward", "step.collective"}) {
      SCOPED_TRACE(async + point);
      expect_survived(train(pause(8) + point + ":rank=1,step=8,act=kill",
                            kFlags + ("--spares 1 --set checkpoint.async=" + async)),
                      {.rank = 1, .phase = "step", .step = 8});
      EXPECT_EQ(resumed(), (Steps{6}));
    }
  }
}

// Every rank has only its part, and takes those of others where it holds the whole.
TEST_F(SnapshotTest, Row2OnEveryKindOfMesh) {
  const std::vector<std::string> meshes = {"tp=2",        "pp=2",        "fsdp=2,zero=3",
                                           "dp=2,zero=1", "dp=2,zero=2", "cp=2"};
  for (const std::string& mesh : testing::share_of(meshes, 3)) {
    SCOPED_TRACE(mesh);
    const std::string flags =
        kFlags + ("--set checkpoint.async=true --set train.dtype=bf16 --mesh " + mesh);
    const Undisturbed whole = undisturbed(flags);
    const CommandResult result = train(pause(5) + "step.backward:rank=1,step=5,act=kill", flags);
    ASSERT_EQ(result.code, 0) << result.err;
    expect_same_as(whole);
    EXPECT_EQ(resumed(), (Steps{4}));
    expect_good_checkpoints();
    expect_nothing_left();
  }
}

TEST_F(SnapshotTest, Row2BeforeTheFirstCheckpointOnDisk) {
  expect_survived(train(pause(3) + "step.forward:rank=0,step=3,act=kill", kFlags),
                  {.rank = 0, .phase = "step", .step = 3});
  EXPECT_EQ(resumed(), (Steps{2}));
}

// Again and again, also while it goes on.
TEST_F(SnapshotTest, Row8KilledWhileItGoesOnAndAgain) {
  expect_survived(
      train(pause(5) + "step.begin:rank=1,step=5,act=kill;" + "load:rank=0,generation=2,act=kill;" +
                pause(7, 3) + "step.update:rank=0,step=7,generation=3,act=kill",
            "--restarts 3 --set checkpoint.every=100 --set checkpoint.memory_every=1"),
      {.rank = 1, .phase = "step", .step = 5}, 3);
  EXPECT_EQ(resumed(), (Steps{4, 6}));  // the second generation came to nothing
}

// What was sealed before counts: of the rank that died, and so of all.
TEST_F(SnapshotTest, Row3KilledWhileItCopiesOrBeforeItSeals) {
  for (const std::string point : {"snapshot.copy", "snapshot.seal"}) {
    for (const int rank : {0, 1}) {
      SCOPED_TRACE(point + std::to_string(rank));
      expect_survived(
          train(fmt::format("{}:rank={},step=6,act=kill", point, rank),
                "--restarts 2 --set checkpoint.every=100 --set checkpoint.memory_every=3"),
          {.rank = rank});
      EXPECT_EQ(resumed(), (Steps{3}));
    }
  }
}

// In the meantime the other rank comes to its next copy, and gives up nothing before both have
// sealed.
TEST_F(SnapshotTest, Row3ARankThatSealsLateTakesNothingAway) {
  expect_survived(
      train("snapshot.seal:rank=1,step=4,act=delay=1500;snapshot.seal:rank=1,step=4,act=kill",
            "--restarts 1 --set checkpoint.every=100 --set checkpoint.memory_every=2"),
      {.rank = 1});
  EXPECT_EQ(resumed(), (Steps{2}));
}

TEST_F(SnapshotTest, ADamagedOneIsNamedAndNotUsed) {
  const std::string damaged = "snapshot.seal:rank=1,step=6,act=flip;" + pause(7);
  // The one before it is.
  CommandResult result =
      train(damaged + "step.end:rank=0,step=7,act=kill",
            "--restarts 1 --set checkpoint.every=100 --set checkpoint.memory_every=2");
  expect_survived(result, {.rank = 0, .phase = "step", .step = 7});
  EXPECT_NE(result.err.find("the snapshot of step 6 of rank 1 cannot be used: block 0 has another "
                            "sum than when it was sealed"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(resumed(), (Steps{4}));
  // The disk has a newer one than that.
  expect_survived(train(damaged + "step.end:rank=0,step=7,act=kill", kFlags),
                  {.rank = 0, .phase = "step", .step = 7});
  EXPECT_EQ(resumed(), (Steps{-5}));
  // Nothing at all is left.
  expect_survived(
      train("snapshot.seal:rank=1,act=flip;" + pause(5) + "step.end:rank=0,step=5,act=kill",
            "--restarts 1 --set checkpoint.every=100 --set checkpoint.memory_every=2"),
      {.rank = 0, .phase = "step", .step = 5});
  EXPECT_EQ(resumed(), (Steps{}));
}

TEST_F(SnapshotTest, ANewerCheckpointOnDiskGoesBeforeIt) {
  expect_survived(train(pause(8) + "step.begin:rank=1,step=8,act=kill",
                        "--restarts 1 --set checkpoint.every=1 --set checkpoint.memory_every=5"),
                  {.rank = 1, .phase = "step", .step = 8});
  EXPECT_EQ(resumed(), (Steps{-7}));
}

// Nothing that was compared as wrong may be gone on from.
TEST_F(SnapshotTest, Row28ASilentErrorIsInNoSnapshot) {
  const CommandResult result = train(pause(4) + "step.end:rank=1,step=4,act=flip",
                                     kFlags + std::string("--compare-replicas 100"));
  ASSERT_EQ(result.code, 0) << result.err;
  expect_same_run();
  EXPECT_EQ(resumed(), (Steps{2}));
}

TEST_F(SnapshotTest, TakesTheMemoryThatWasPlanned) {
  for (const std::string flags :
       {"--threads --set checkpoint.async=true", "--restarts 1 --set checkpoint.async=true",
        "--restarts 1 --set checkpoint.async=true --set checkpoint.memory_every=2",
        "--restarts 1 --set checkpoint.memory_every=2 --mesh dp=2,zero=2",
        "--set checkpoint.async=false"}) {
    SCOPED_TRACE(flags);
    ASSERT_EQ(train("", flags).code, 0);
    const auto read = [&](const std::string& name) {
      return nlohmann::json::parse(read_file(folder_.path("out/" + name)))
          .at("checkpoints")
          .at("staging_bytes");
    };
    EXPECT_EQ(read("plan.json"), read("summary.json"));
    EXPECT_EQ(read("plan.json").at(0) > 0, flags.find("async=false") == std::string::npos);
  }
  const nlohmann::json plan =
      run("plan run.toml --json --set checkpoint.async=true --set checkpoint.memory_every=2")
          .json();
  EXPECT_EQ(plan.at("checkpoints").at("staging_bytes").size(), 2U);
  const CommandResult text = run("plan run.toml --set checkpoint.async=true");
  EXPECT_NE(text.out.find("in memory of the host: copies for checkpoints, "), std::string::npos)
      << text.out;
}

// Without restarts nobody would use them.
TEST_F(SnapshotTest, WithoutRestartsNoneAreTaken) {
  ASSERT_EQ(train("", "--set checkpoint.memory_every=1").code, 0);
  const auto summary = nlohmann::json::parse(read_file(folder_.path("out/summary.json")));
  EXPECT_FALSE(summary.at("checkpoints").contains("snapshots"));
  ASSERT_EQ(train("", "--restarts 1 --set checkpoint.memory_every=1").code, 0);
  const auto taken = nlohmann::json::parse(read_file(folder_.path("out/summary.json")));
  EXPECT_EQ(taken.at("checkpoints").at("snapshots"), kSteps - 1);
  const CommandResult refused =
      run("train run.toml --set checkpoint.every=0 --set checkpoint.memory_every=1 --restarts 1");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("checkpoint.memory_every is set"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace tessera::testing
