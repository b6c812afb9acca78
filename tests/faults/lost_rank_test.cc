// Rows 1, 2 and 8 of the matrix of faults: a rank that is killed, wherever it is.
#include <chrono>
#include <random>
#include <thread>

#include "base/testing/share.h"
#include "faults/fault_run.h"

namespace tessera::testing {
namespace {

class LostRankTest : public FaultTest {
 protected:
  static double unix_now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

TEST_F(LostRankTest, Row1KilledWhileRanksMeet) {
  for (const std::string point : {"rdzv.join", "comm.init"}) {
    SCOPED_TRACE(point);
    expect_survived(train(point + ":rank=1,act=kill"), {.rank = 1, .phase = "setup", .step = 0});
  }
}

TEST_F(LostRankTest, Row2KilledInsideAStep) {
  for (const std::string point :
       {"step.begin", "step.forward", "step.backward", "step.update", "step.collective"}) {
    SCOPED_TRACE(point);
    expect_survived(train(point + ":rank=1,step=5,act=kill"),
                    {.rank = 1, .phase = "step", .step = 5});
  }
}

// Before every instruction of the update but the first.
TEST_F(LostRankTest, Row2KilledBetweenTwoUpdates) {
  int killed = 0;
  for (int at = 2;; ++at) {
    SCOPED_TRACE(at);
    const CommandResult result = train(fmt::format("step.update:rank=1,step=5,at={},act=kill", at));
    if (events("verdict").empty()) break;  // the step has no more of them
    expect_survived(result, {.rank = 1, .phase = "step", .step = 5});
    ++killed;
  }
  EXPECT_GT(killed, 0);
}

// It waits in the middle of a collective for a rank that is late.
TEST_F(LostRankTest, Row2KilledInsideACollective) {
  Command command(folder_, words_of("train run.toml -q --set logging.run_dir=out --restarts 1"),
                  with_fault("step.collective:rank=0,step=5,at=1,act=delay=3000"));
  agent_ = command.pid();
  ASSERT_TRUE(wait_until([&] {
    const std::string metrics = folder_.path("out/metrics.jsonl");
    return std::filesystem::exists(metrics) &&
           read_file(metrics).find("\"step\":4") != std::string::npos;
  }));
  std::this_thread::sleep_for(std::chrono::seconds(1));  // rank 1 comes to it
  const double killed = unix_now();
  ::kill(ranks_of(agent_).at(1), SIGKILL);
  expect_survived(command.finish(), {.rank = 1, .phase = "step", .step = 5});
  const nlohmann::json verdict = events("verdict").at(0);
  EXPECT_NE(verdict.at("reason").get<std::string>().find(" of group "), std::string::npos)
      << verdict;
  const double noticed = verdict.at("time").get<double>() - killed;
  fmt::print("noticed after {:.3f} s\n", noticed);
  EXPECT_LE(noticed, 3 * 0.5);
}

// With 16-bit weights, and saves beside the steps.
TEST_F(LostRankTest, Row2OnEveryKindOfMesh) {
  const std::vector<std::string> meshes = {"tp=2", "pp=2", "fsdp=2,zero=3", "dp=2,zero=2", "cp=2"};
  for (const std::string& mesh : testing::share_of(meshes, 2)) {
    SCOPED_TRACE(mesh);
    const std::string flags = "--set train.dtype=bf16 --set checkpoint.async=true --mesh " + mesh;
    const Undisturbed whole = undisturbed("--threads " + flags);
    const CommandResult result =
        train("step.backward:rank=1,step=5,act=kill", "--restarts 1 " + flags);
    ASSERT_EQ(result.code, 0) << result.err;
    expect_same_as(whole);
    expect_verdict({.rank = 1, .phase = "step", .step = 5});
    expect_good_checkpoints();
    expect_nothing_left();
  }
}

// From outside, at a moment that nobody chose; rank 0 writes the run's files.
TEST_F(LostRankTest, Row2KilledAtARandomMoment) {
  std::random_device random;
  const unsigned seed = random();
  SCOPED_TRACE(seed);
  std::mt19937 draws(seed);
  const auto victim = static_cast<int>(draws() % 2);
  const size_t lines = 1 + draws() % (kSteps - 1);
  Command command(folder_, words_of("train run.toml -q --set logging.run_dir=out --restarts 1"),
                  // Slow enough that the run is still there when it is to be killed.
                  with_fault("step.begin:act=delay=40"));
  agent_ = command.pid();
  ASSERT_TRUE(wait_until([&] {
    const std::string metrics = folder_.path("out/metrics.jsonl");
    if (!std::filesystem::exists(metrics)) return false;
    const std::string text = read_file(metrics);
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) >= lines;
  }));
  ::kill(ranks_of(agent_).at(victim), SIGKILL);
  expect_survived(command.finish(), {.rank = victim});
}

TEST_F(LostRankTest, BeginsAnewWhereThereIsNoCheckpoint) {
  const CommandResult result = train("step.begin:rank=0,step=2,act=kill");
  expect_survived(result, {.rank = 0, .phase = "step", .step = 2});
  EXPECT_TRUE(events("resume").empty());
}

TEST_F(LostRankTest, Row8KilledWhileItGoesOnAndAgain) {
  expect_survived(train("step.begin:rank=1,step=5,act=kill;load:rank=0,generation=2,act=kill;"
                        "load:rank=1,generation=3,act=kill",
                        "--restarts 3"),
                  {.rank = 1, .phase = "step", .step = 5}, 3);
}

// In the middle of what it reads, twice, on the way to another mesh; one cause uses up one restart.
TEST_F(LostRankTest, Row8KilledInTheMiddleOfAReshardAndAgain) {
  for (const std::string chunk : {"1", "5", "11"}) {
    SCOPED_TRACE(chunk);
    const CommandResult result =
        train("step.begin:rank=1,step=5,act=kill;load.chunk:rank=0,generation=2,at=" + chunk +
                  ",act=kill;load.chunk:rank=1,generation=3,at=" + chunk + ",act=kill",
              "--restarts 1");
    expect_survived(result, {.rank = 1, .phase = "step", .step = 5}, 3);
    const std::vector<nlohmann::json> restarts = events("restart");
    for (const nlohmann::json& restart : restarts) EXPECT_EQ(restart.at("restarts_left"), 0);
  }
  // Saved with whole states, read in slices.
  const std::string move =
      "train run.toml -q --resume out/checkpoints/step-00000006 --restarts 2 --mesh dp=2,zero=3 "
      "--set logging.run_dir=";
  succeed(move + "moved");
  Command command(folder_, words_of(move + "killed"),
                  with_fault("load.chunk:rank=0,at=3,act=kill;"
                             "load.chunk:rank=1,generation=2,at=4,act=kill"));
  const CommandResult moved = command.finish();
  EXPECT_EQ(moved.code, 0) << moved.err;
  EXPECT_NE(moved.err.find("0 restarts left"), std::string::npos) << moved.err;
  EXPECT_TRUE(read_file(folder_.path("killed/model.safetensors")) ==
              read_file(folder_.path("moved/model.safetensors")));
}

// What a rank cannot do better the next time.
TEST_F(LostRankTest, AStepThatFailsThreeTimesEndsTheRun) {
  const CommandResult result =
      train("step.forward:rank=1,step=5,generation=0,act=kill", "--restarts 9");
  EXPECT_EQ(result.code, 78) << result.err;
  EXPECT_NE(result.err.find("step 5 has failed 3 times, on ranks 1, 1 and 1 (samples 16 to 19; "),
            std::string::npos)
      << result.err;
  EXPECT_EQ(events("verdict").size(), 3U);
  EXPECT_EQ(events("restart").size(), 2U);
  expect_good_checkpoints();
  expect_nothing_left();
}

TEST_F(LostRankTest, OutOfRestartsSaysWhatWasTried) {
  const CommandResult result =
      train("step.begin:rank=1,step=5,act=kill;step.begin:rank=0,step=6,generation=2,act=kill",
            "--restarts 1");
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("started again 1 time before, after rank 1 was killed by SIGKILL in "
                            "step 5"),
            std::string::npos)
      << result.err;
  expect_good_checkpoints();
  expect_nothing_left();
}

TEST_F(LostRankTest, WithoutTheFlagARunIsLostAsBefore) {
  const CommandResult result = train("step.begin:rank=1,step=5,act=kill", "");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err.find("again"), std::string::npos) << result.err;
  expect_verdict({.rank = 1, .phase = "step", .step = 5});
  EXPECT_TRUE(events("restart").empty());
}

// A mistake of the user stays one.
TEST_F(LostRankTest, WhatWouldFailAgainIsNotTriedAgain) {
  EXPECT_EQ(train("", "").code, 0);
  const CommandResult other =
      run("train run.toml -q --set logging.run_dir=out --resume auto --set train.seed=9 "
          "--restarts 3");
  EXPECT_EQ(other.code, 2);
  EXPECT_EQ(other.err.find("again"), std::string::npos) << other.err;
  EXPECT_TRUE(events("restart").empty());
}

// Each start of the run finds what the one before has left, and must not take it for another run.
TEST_F(LostRankTest, AFormerRunIsMovedAsideOnce) {
  for (const std::string fault :
       {"comm.init:rank=1,act=kill", "step.begin:rank=1,step=2,act=kill"}) {
    SCOPED_TRACE(fault);
    ASSERT_EQ(train("", "--set train.seed=3").code, 0);
    const std::string former = read_file(folder_.path("out/model.safetensors"));
    Command command(
        folder_, words_of("train run.toml -q --set logging.run_dir=out --overwrite --restarts 1"),
        with_fault(fault));
    agent_ = command.pid();
    expect_survived(command.finish(), {.rank = 1});
    EXPECT_TRUE(read_file(folder_.path("out/previous/model.safetensors")) == former);
    EXPECT_FALSE(std::filesystem::exists(folder_.path("out/previous-2")));
  }
}

// A batch system starts the same command again, however far it came.
TEST_F(LostRankTest, ARunThatWasCutOffBeforeItsFirstCheckpointBeginsAgain) {
  const std::string again = "train run.toml -q --resume auto --set logging.run_dir=out";
  EXPECT_NE(train("step.begin:rank=1,step=3,act=kill", "--resume auto").code, 0);
  EXPECT_EQ(read_metrics(folder_.path("out/metrics.jsonl")).size(), 2U);
  const CommandResult result = run(again);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("the run that was in out is now in out/previous"), std::string::npos)
      << result.err;
  expect_same_run();
  EXPECT_EQ(read_metrics(folder_.path("out/previous/metrics.jsonl")).size(), 2U);
  // Trained weights are moved only where that is asked for.
  std::filesystem::remove_all(folder_.path("out/checkpoints"));
  const CommandResult refused = run(again);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("holds a run (model.safetensors)"), std::string::npos) << refused.err;
}

TEST_F(LostRankTest, ARunFromAnotherDirectoryBeginsThereAgain) {
  ASSERT_EQ(train("", "").code, 0);
  std::filesystem::rename(folder_.path("out"), folder_.path("other"));
  const CommandResult result = train("step.begin:rank=1,step=8,act=kill",
                                     "--restarts 1 --resume other/checkpoints/step-00000006");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(read_file(folder_.path("out/model.safetensors")) == undisturbed().weights);
  EXPECT_EQ(read_metrics(folder_.path("out/metrics.jsonl")).front().at("step"), 7);
  EXPECT_EQ(events("resume").size(), 2U);
}

// Somebody who wants the run to end does not want it to start again.
TEST_F(LostRankTest, ASignalEndsTheRunInAnyGeneration) {
  Command command(folder_, words_of("train run.toml -q --set logging.run_dir=out --restarts 5"),
                  with_fault("step.begin:rank=1,step=2,act=kill;"
                             "step.begin:generation=2,act=delay=100"));
  agent_ = command.pid();
  ASSERT_TRUE(wait_until([&] { return events("restart").size() == 1; }));
  ASSERT_TRUE(wait_until([&] {
    const std::string metrics = folder_.path("out/metrics.jsonl");
    return std::filesystem::exists(metrics) && !read_metrics(metrics).empty();
  }));
  command.signal(SIGTERM);
  EXPECT_NE(command.finish().code, 0);
  EXPECT_EQ(events("restart").size(), 1U);
  expect_nothing_left();
  const CommandResult result = run("train run.toml -q --set logging.run_dir=out --resume auto");
  ASSERT_EQ(result.code, 0) << result.err;
  expect_same_run();
}

TEST_F(LostRankTest, LogsOfAllGenerationsAreKept) {
  const CommandResult result =
      train("step.begin:rank=0,step=5,act=kill", "--restarts 1 --log-dir logs");
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string log = read_file(folder_.path("logs/rank-0.log"));
  EXPECT_NE(log.find("goes on after step 3"), std::string::npos) << log;
}

TEST_F(LostRankTest, ASingleRankIsAProcessToo) {
  const CommandResult result = train("step.begin:step=5,act=kill", "--mesh dp=1 --restarts 1");
  EXPECT_EQ(result.code, 0) << result.err;
  expect_verdict({.rank = 0, .phase = "step", .step = 5});
}

TEST_F(LostRankTest, AFaultThatIsNoneIsRefused) {
  for (const auto& [fault, words] :
       {std::pair("nowhere:act=kill", "\"nowhere\" is no point; use POINT:act=kill"),
        std::pair("step.begin:act=melt", "act \"melt\" is none of kill"),
        std::pair("step.begin:rank=x,act=kill", "\"x\" is no whole number"),
        std::pair("step.begin:where=1", "unknown key \"where\"")}) {
    const CommandResult result = train(fault);
    EXPECT_EQ(result.code, 2);
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  }
}

TEST_F(LostRankTest, ThreadsAreRefused) {
  const CommandResult result = train("", "--threads --restarts 1");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("leave out --threads"), std::string::npos) << result.err;
}

TEST_F(LostRankTest, AFaultOfARankThatIsNotThereIsRefused) {
  const CommandResult result = train("step.begin:rank=2,act=kill");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("TESSERA_FAULT: there is no rank 2: the run has 2 ranks"),
            std::string::npos)
      << result.err;
}

}  // namespace
}  // namespace tessera::testing
