// Row 26 of the matrix of faults: the number of replicas changes in the middle of a run, and the
// run has the bits of one whose number did not.
#include "faults/lanes_run.h"

namespace tessera::testing {
namespace {

class ElasticTest : public LanesRunTest {};

// By hand: 4 -> 3 -> 2 -> 4 replicas.
TEST_F(ElasticTest, ResumesWithAnyNumberOfReplicas) {
  for (const char* train : {"dtype=\"f32\"", "dtype=\"bf16\""}) {
    use("dp=4\nzero=1", train);
    std::string resume;
    for (const auto& [dp, steps] : {std::pair(4, 4), {3, 8}, {2, 11}, {4, kLanesSteps}}) {
      // A run that ends early is one with fewer steps: the rate must not depend on it.
      succeed(
          fmt::format("train run.toml -q --threads --set logging.run_dir=out --mesh dp={},"
                      "zero={} --set optimizer.schedule=\"constant\" --set train.steps={}{}",
                      dp, dp - 1, steps, resume));
      resume = " --resume auto";
    }
    succeed(
        "train run.toml -q --threads --overwrite --set logging.run_dir=fixed --set "
        "optimizer.schedule=\"constant\"");
    expect_fixed_run();
    std::filesystem::remove_all(folder_.path("out"));
    std::filesystem::remove_all(folder_.path("fixed"));
  }
}

TEST_F(ElasticTest, RefusesOtherLanes) {
  use("dp=4");
  const CommandResult result = run(
      "train run.toml -q --threads --set logging.run_dir=out --resume fixed --set train.lanes=8");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("train.lanes is 4 there, but 8 in this run"), std::string::npos)
      << result.err;
}

TEST_F(ElasticTest, Row26ShrinksWhereARankIsLostAndGrowsAgain) {
  use("dp=4\nzero=2");
  const CommandResult result = train(
      "step.backward:rank=3,step=4,act=kill,generation=1;"
      "step.backward:rank=1,step=5,act=kill,generation=2;"
      "step.begin:rank=0,act=delay=60,generation=3",
      "--restarts 2 --elastic min=2,max=4,grow=2");
  ASSERT_EQ(result.code, 0) << result.err;
  expect_fixed_run();
  expect_sizes({{"shrink", 3}, {"shrink", 2}, {"grow", 4}});
  expect_good_checkpoints();
  expect_nothing_left();
}

// What other numbers of ranks have left in memory says nothing to these, and is no damage.
TEST_F(ElasticTest, Row26WithSnapshotsInMemory) {
  use("dp=4");
  const CommandResult result = train(
      "step.backward:rank=3,step=6,act=kill,generation=1;step.begin:rank=0,act=delay=60,generation="
      "2",
      "--restarts 2 --elastic min=2,max=4,grow=2 --set checkpoint.every=100 "
      "--set checkpoint.memory_every=2");
  ASSERT_EQ(result.code, 0) << result.err;
  expect_fixed_run();
  expect_sizes({{"shrink", 3}, {"grow", 4}});
  EXPECT_EQ(result.err.find("cannot be used"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("is passed over"), std::string::npos) << result.err;
}

// Two stages of two halves: a replica is four ranks, and goes with any of them.
TEST_F(ElasticTest, Row26BesidePipelines) {
  use("dp=3\npp=2", "dtype=\"bf16\"");
  const CommandResult result =
      train("step.forward:rank=4,step=5,act=kill", "--restarts 2 --elastic min=1,max=3");
  ASSERT_EQ(result.code, 0) << result.err;
  expect_fixed_run();
  expect_sizes({{"shrink", 4}});
  expect_nothing_left();
}

TEST_F(ElasticTest, GrowsWhenAsked) {
  use("dp=2");
  std::filesystem::remove_all(folder_.path("out"));
  Command command(folder_,
                  words_of("train run.toml -q --set logging.run_dir=out --restarts 1 --elastic "
                           "min=1,max=4"),
                  with_fault("step.begin:rank=0,act=delay=60,generation=1"));
  agent_ = command.pid();
  ASSERT_TRUE(wait_until([&] {
    const std::string metrics = folder_.path("out/metrics.jsonl");
    return std::filesystem::exists(metrics) && std::filesystem::file_size(metrics) > 0;
  }));
  command.signal(SIGUSR2);
  const CommandResult result = command.finish();
  ASSERT_EQ(result.code, 0) << result.err;
  expect_fixed_run();
  expect_sizes({{"grow", 4}});
  EXPECT_EQ(events("grow").at(0).at("reason"), "SIGUSR2");
  EXPECT_NE(result.err.find("goes on with 4 ranks instead of 2 (generation 2)"), std::string::npos)
      << result.err;
  expect_nothing_left();
}

TEST_F(ElasticTest, ASpareComesBeforeShrinking) {
  use("dp=2");
  const CommandResult result =
      train("step.forward:rank=1,step=5,act=kill", "--restarts 1 --spares 1 --elastic min=1,max=2");
  ASSERT_EQ(result.code, 0) << result.err;
  expect_fixed_run();
  expect_sizes({});
}

TEST_F(ElasticTest, RefusesWhatCannotChange) {
  folder_.write("run.toml", lanes_run_file("dp=2", ""));
  const auto expect_refused = [&](const std::string& flags, const std::string& text) {
    const CommandResult result = run("train run.toml -q --dry-run " + flags);
    EXPECT_EQ(result.code, 2) << flags;
    EXPECT_NE(result.err.find(text), std::string::npos) << flags << "\n" << result.err;
  };
  expect_refused("--elastic min=1,max=2", "add --restarts 3");
  expect_refused("--restarts 1 --elastic min=2", "min at most max");
  expect_refused("--restarts 1 --elastic most=2", "'most=2' is none of min=N");
  expect_refused("--restarts 1 --elastic min=two,max=2", "'two' is no whole number");
  expect_refused("--restarts 1 --elastic min=3,max=4", "begins with dp = 2");
  expect_refused("--restarts 1 --elastic min=1,max=8", "set train.lanes to a power of two");
  expect_refused("--restarts 1 --elastic min=1,max=2 --set checkpoint.every=0",
                 "go on from a checkpoint");
}

}  // namespace
}  // namespace tessera::testing
