// Row 14 of the matrix of faults: whoever runs the machine wants it back.
#include "faults/fault_run.h"

namespace tessera::testing {
namespace {

class PreemptedTest : public FaultTest {
 protected:
  // Slow enough to be met in the middle; the only checkpoint is the one that the signal asks for.
  static constexpr const char* kSlow = "step.begin:act=delay=60";
  static constexpr const char* kFlags = "--set checkpoint.every=1000 ";

  // Sends `signal` to the command, or to its rank `rank`, once two steps are done.
  CommandResult preempt(int signal, const std::string& flags, int rank = -1) {
    std::filesystem::remove_all(folder_.path("out"));
    Command command(folder_, words_of("train run.toml -q --set logging.run_dir=out " + flags),
                    with_fault(kSlow));
    agent_ = command.pid();
    EXPECT_TRUE(wait_until([&] { return steps_done() >= 2; }));
    ::kill(rank < 0 ? agent_ : ranks_of(agent_).at(rank), signal);
    return command.finish();
  }
  [[nodiscard]] int64_t steps_done() const {
    const std::string metrics = folder_.path("out/metrics.jsonl");
    if (!std::filesystem::exists(metrics)) return 0;
    const std::string text = read_file(metrics);
    return std::count(text.begin(), text.end(), '\n');
  }

  // The step that the signal met was finished and saved.
  void expect_checkpoint_of_last_step() {
    expect_good_checkpoints();
    const nlohmann::json saved = run("checkpoint show out --json").json();
    EXPECT_EQ(saved.at("state").at("step"), steps_done());
    EXPECT_LT(steps_done(), kSteps);
  }
  void expect_requeued_run_is_the_same() {
    const CommandResult again =
        run(std::string("train run.toml -q --set logging.run_dir=out --resume auto ") + kFlags);
    ASSERT_EQ(again.code, 0) << again.err;
    expect_same_run();
    expect_nothing_left();
  }
};

TEST_F(PreemptedTest, Row14SavesAndAsksToBeStartedAgain) {
  struct Case {
    int signal;
    int rank;  // -1: the agent
    const char* flags;
  };
  for (const Case& one :
       {Case{SIGTERM, -1, ""}, Case{SIGUSR1, -1, "--restarts 1"}, Case{SIGTERM, 1, ""},
        Case{SIGUSR1, 0, ""}, Case{SIGTERM, -1, "--threads --set checkpoint.async=true"}}) {
    SCOPED_TRACE(fmt::format("signal {} rank {} {}", one.signal, one.rank, one.flags));
    const CommandResult result = preempt(one.signal, std::string(kFlags) + one.flags, one.rank);
    EXPECT_EQ(result.code, 85) << result.err;
    EXPECT_NE(result.err.find("and --resume auto goes on from its checkpoint"), std::string::npos)
        << result.err;
    EXPECT_TRUE(events("verdict").empty());
    EXPECT_TRUE(events("restart").empty());
    expect_checkpoint_of_last_step();
    expect_requeued_run_is_the_same();
  }
}

// Also of a run that has gone on once.
TEST_F(PreemptedTest, Row14AgainAndAgain) {
  const CommandResult first = preempt(SIGTERM, kFlags);
  EXPECT_EQ(first.code, 85) << first.err;
  const int64_t before = steps_done();
  Command command(
      folder_,
      words_of(std::string("train run.toml -q --set logging.run_dir=out --resume auto ") + kFlags),
      with_fault(kSlow));
  agent_ = command.pid();
  ASSERT_TRUE(wait_until([&] { return steps_done() > before; }));
  command.signal(SIGUSR1);
  EXPECT_EQ(command.finish().code, 85);
  EXPECT_GT(steps_done(), before);
  expect_requeued_run_is_the_same();
}

TEST_F(PreemptedTest, PeopleGetTheCodeOfTheirSignalAndTheCheckpoint) {
  const CommandResult result = preempt(SIGINT, kFlags);
  EXPECT_EQ(result.code, 130) << result.err;
  expect_checkpoint_of_last_step();
  expect_requeued_run_is_the_same();
}

// The first would wait for the disk of rank 1 for a long time.
TEST_F(PreemptedTest, ASecondOneEndsAtOnce) {
  Command command(folder_,
                  words_of(std::string("train run.toml -q --set logging.run_dir=out ") + kFlags),
                  with_fault(std::string(kSlow) + ";save.write:rank=1,act=delay=20000"));
  agent_ = command.pid();
  ASSERT_TRUE(wait_until([&] { return steps_done() >= 2; }));
  const auto begin = std::chrono::steady_clock::now();
  command.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  command.signal(SIGINT);
  EXPECT_EQ(command.finish().code, 130);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  expect_nothing_left();
}

// Nobody may take it for a run that loses nothing.
TEST_F(PreemptedTest, WithoutACheckpointTheCodesAreThoseOfTheSignals) {
  EXPECT_EQ(preempt(SIGTERM, "--set checkpoint.every=0").code, 143);
  EXPECT_EQ(preempt(SIGUSR1, "--threads --set checkpoint.every=0").code, 128 + SIGUSR1);
  EXPECT_FALSE(std::filesystem::exists(folder_.path("out/checkpoints")));
  // The disk refuses the one that was asked for.
  std::filesystem::remove_all(folder_.path("out"));
  Command command(folder_,
                  words_of(std::string("train run.toml -q --set logging.run_dir=out ") + kFlags),
                  with_fault(std::string(kSlow) + ";save.write:rank=1,act=fail"));
  ASSERT_TRUE(wait_until([&] { return steps_done() >= 2; }));
  command.signal(SIGTERM);
  const CommandResult refused = command.finish();
  EXPECT_EQ(refused.code, 143) << refused.err;
  EXPECT_EQ(refused.err.find("--resume auto"), std::string::npos) << refused.err;
  EXPECT_EQ(events("save failed").size(), 1U);
}

TEST_F(PreemptedTest, BeforeTheFirstStepThereIsNothingToSave) {
  Command command(folder_,
                  words_of(std::string("train run.toml -q --set logging.run_dir=out ") + kFlags),
                  with_fault("comm.init:rank=1,act=delay=20000"));
  agent_ = command.pid();
  ASSERT_TRUE(wait_until([&] { return ranks_of(agent_).size() == 2; }));
  command.signal(SIGTERM);
  EXPECT_EQ(command.finish().code, 143);
  expect_nothing_left();
}

}  // namespace
}  // namespace tessera::testing
