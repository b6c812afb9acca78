#include "serve/ranks/process_frame_runner.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "launch/testing/test_process.h"
#include "serve/testing/toy_ranks.h"

namespace tessera::serve {
namespace {

using namespace tessera::serve::testing;
using tessera::testing::contains;
using tessera::testing::gone_soon;
using tessera::testing::TestProcess;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Far above what is promised, so that a busy machine does not fail a test; far below for ever.
constexpr milliseconds kSoon{20'000};

const std::vector<int32_t> kText = {5, 4, 3, 2, 1, 0, 7, 700, 13};

std::vector<int32_t> expected(int more) {
  std::vector<int32_t> all = kText;
  for (int i = 0; i < more; ++i) all.push_back(toy_token_after(all, toy_shape({}).vocab));
  return {all.begin() + static_cast<std::ptrdiff_t>(kText.size()), all.end()};
}

size_t open_descriptors() {
  const auto files = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

// Descriptors are as before once this is gone.
struct NothingIsLeft {
  size_t before = open_descriptors();
  ~NothingIsLeft() { EXPECT_EQ(open_descriptors(), before); }
};

std::vector<pid_t> pids_of(const ProcessFrameRunner& runner, const ToyMesh& mesh) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < mesh.ranks(); ++rank) pids.push_back(runner.pid(rank));
  return pids;
}

// Computes until that fails, and returns how.
Error failure_while_computing(ProcessFrameRunner& runner, const std::function<void()>& begun = {}) {
  uint64_t number = 1;
  const Clock::time_point until = Clock::now() + kSoon;
  try {
    for (int i = 0; Clock::now() < until; ++i) {
      (void)generate_alone(runner, kText, 5, 2, number);
      if (i == 1 && begun) begun();
    }
  } catch (const Error& error) {
    return error;
  }
  return Error("it goes on");
}

TEST(ProcessFrameRunnerTest, RanksComputeWhatOneWould) {
  for (const ToyMesh& mesh : {ToyMesh{1, 1}, ToyMesh{2, 1}, ToyMesh{1, 3}, ToyMesh{2, 2}}) {
    const NothingIsLeft check;
    ProcessRunnerOptions options = toy_options(mesh);
    std::vector<std::string> said;
    options.on_state = [&](const std::string& text) { said.push_back(text); };
    ProcessFrameRunner runner(options);
    EXPECT_EQ(said.size(), static_cast<size_t>(mesh.ranks()));
    EXPECT_TRUE(contains(said.front(), "plays")) << said.front();
    EXPECT_EQ(runner.shape().stages, mesh.pp);
    uint64_t number = 1;
    for (const int chunk : {1, 3, 128}) {
      EXPECT_EQ(generate_alone(runner, kText, 20, chunk, number), expected(20))
          << mesh.tp << " x " << mesh.pp << ", chunks of " << chunk;
    }
  }
}

TEST(ProcessFrameRunnerTest, RanksEndWhenNobodyNeedsThem) {
  const ToyMesh mesh{2, 2};
  std::vector<pid_t> pids;
  {
    ProcessFrameRunner runner(toy_options(mesh));
    pids = pids_of(runner, mesh);
    uint64_t number = 1;
    (void)generate_alone(runner, kText, 3, 2, number);
  }
  for (const pid_t pid : pids) EXPECT_EQ(::kill(pid, 0), -1) << pid;
}

class LostRank : public ::testing::TestWithParam<int> {};

TEST_P(LostRank, IsNamedAndEndsTheOthers) {
  const NothingIsLeft check;
  const ToyMesh mesh{2, 2};
  const int rank = GetParam();
  std::atomic<int> told{0};
  ProcessRunnerOptions options = toy_options(mesh);
  options.on_lost = [&](const RankVerdict& verdict) {
    EXPECT_EQ(verdict.rank, rank);
    EXPECT_TRUE(verdict.curable);
    ++told;
  };
  ProcessFrameRunner runner(options);
  const std::vector<pid_t> pids = pids_of(runner, mesh);
  const Error error =
      failure_while_computing(runner, [&] { ::kill(pids[static_cast<size_t>(rank)], SIGKILL); });
  const std::string who = fmt::format("rank {} (pid {})", rank, pids[static_cast<size_t>(rank)]);
  EXPECT_TRUE(contains(error.what(), who + " was killed by SIGKILL")) << error.what();
  EXPECT_TRUE(contains(error.what(), " frame ")) << error.what();
  EXPECT_EQ(error.code(), ExitCode::kFailed);
  EXPECT_EQ(told, 1);
  for (const pid_t pid : pids) EXPECT_TRUE(gone_soon(pid));
  EXPECT_THROW(runner.start(Frame()), Error) << "it is dead from then on";
}

TEST_P(LostRank, ThatIsStoppedIsNamedToo) {
  const ToyMesh mesh{2, 2};
  const int rank = GetParam();
  ProcessRunnerOptions options = toy_options(mesh);
  options.processes.watch.stopped_after = milliseconds(200);
  ProcessFrameRunner runner(options);
  const std::vector<pid_t> pids = pids_of(runner, mesh);
  const Error error =
      failure_while_computing(runner, [&] { ::kill(pids[static_cast<size_t>(rank)], SIGSTOP); });
  const std::string who = fmt::format("rank {} (pid {})", rank, pids[static_cast<size_t>(rank)]);
  EXPECT_TRUE(contains(error.what(), who + " was stopped for ")) << error.what();
  for (const pid_t pid : pids) EXPECT_TRUE(gone_soon(pid));
}

TEST_P(LostRank, IsNoticedWhileNothingIsAskedOfIt) {
  const ToyMesh mesh{2, 2};
  ProcessRunnerOptions options = toy_options(mesh);
  std::promise<std::string> told;
  options.on_lost = [&](const RankVerdict& verdict) { told.set_value(verdict.message); };
  ProcessFrameRunner runner(options);
  ::kill(runner.pid(GetParam()), SIGKILL);
  std::future<std::string> message = told.get_future();
  ASSERT_EQ(message.wait_for(kSoon), std::future_status::ready);
  EXPECT_TRUE(contains(message.get(), fmt::format("rank {} (pid ", GetParam())));
  EXPECT_THROW(runner.start(Frame()), Error);
}

INSTANTIATE_TEST_SUITE_P(OfEachStage, LostRank, ::testing::Values(0, 1, 2, 3));

TEST(RankFaultTest, AHungRankIsNamedNotThoseThatWaitForIt) {
  const ToyMesh mesh{2, 2};
  ProcessRunnerOptions options = toy_options(mesh, "serve.frame:rank=1,step=7,act=spin");
  options.processes.watch.hung_after = milliseconds(800);
  ProcessFrameRunner runner(options);
  const Error error = failure_while_computing(runner);
  EXPECT_TRUE(contains(error.what(), fmt::format("rank 1 (pid {}) hung for ", runner.pid(1))))
      << error.what();
  EXPECT_TRUE(contains(error.what(), "in frame 7")) << error.what();
}

TEST(RankFaultTest, AtEveryPointARankIsNamed) {
  const ToyMesh mesh{1, 2};
  for (const char* point : {"serve.frame:rank=1,step=3", "serve.result:rank=0,step=3"}) {
    ProcessFrameRunner runner(toy_options(mesh, std::string(point) + ",act=kill"));
    const Error error = failure_while_computing(runner);
    EXPECT_TRUE(contains(error.what(), " was killed by SIGKILL")) << error.what();
    EXPECT_TRUE(contains(error.what(), "frame 3")) << error.what();
  }
}

TEST(RankFaultTest, WhatARankSaysOfItsFailureIsTheMessage) {
  const ToyMesh mesh{2, 2};
  ProcessFrameRunner runner(toy_options(mesh, "serve.frame:rank=2,step=5,act=fail"));
  const Error error = failure_while_computing(runner);
  EXPECT_TRUE(contains(error.what(), "rank 2: TESSERA_FAULT asks for an error at serve.frame"))
      << error.what();
}

TEST(RankStartTest, AMistakeOfARankIsSaidOnceWithItsExitCode) {
  const NothingIsLeft check;
  const ToyMesh mesh{2, 2};
  ProcessRunnerOptions options = toy_options(mesh, "serve.load:rank=3,act=errno=EIO");
  try {
    ProcessFrameRunner runner(options);
    ADD_FAILURE() << "it is ready";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kIo);
    EXPECT_TRUE(contains(error.what(), "rank 3: ")) << error.what();
  }
}

TEST(RankStartTest, ARankThatIsKilledBeforeItIsReadyIsNamed) {
  const ToyMesh mesh{1, 2};
  try {
    ProcessFrameRunner runner(toy_options(mesh, "serve.load:rank=1,act=kill"));
    ADD_FAILURE() << "it is ready";
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "rank 1 (pid ")) << error.what();
    EXPECT_TRUE(contains(error.what(), "was killed by SIGKILL")) << error.what();
  }
}

TEST(RankStartTest, OneThatNeverGetsReadyIsNamed) {
  const ToyMesh mesh{1, 2};
  ProcessRunnerOptions options = toy_options(mesh, "serve.load:rank=1,act=delay=60000");
  options.start_timeout = milliseconds(600);
  try {
    ProcessFrameRunner runner(options);
    ADD_FAILURE() << "it is ready";
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "rank 1: not ready")) << error.what();
  }
}

TEST(RankStartTest, ATaskThatNobodyKnowsIsRefused) {
  ProcessRunnerOptions options = toy_options({});
  options.task.text = "something else";
  EXPECT_THROW(ProcessFrameRunner{options}, Error);
  options = toy_options({});
  options.processes.executable = "/no/such/program";
  EXPECT_THROW(ProcessFrameRunner{options}, Error);
}

TEST(RankStartTest, NobodyWaitsForRanksThatNobodyWants) {
  ProcessRunnerOptions options = toy_options({}, "serve.load:act=delay=60000");
  options.cancelled = [] { return true; };
  EXPECT_THROW(ProcessFrameRunner{options}, Error);
}

// The signals of a whole group reach ranks too: they go on until they are told.
TEST(RankSignalTest, RanksDoNotHearSignalsThatAskToStop) {
  const ToyMesh mesh{2, 1};
  ProcessFrameRunner runner(toy_options(mesh));
  for (const pid_t pid : pids_of(runner, mesh)) {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) ::kill(pid, signal);
  }
  uint64_t number = 1;
  EXPECT_EQ(generate_alone(runner, kText, 20, 3, number), expected(20));
}

TEST(FrontTest, NoRankOutlivesIt) {
  TestProcess front({.arguments = {"--as-toy-front"}});
  front.await_output("ready");
  std::istringstream lines(front.out());
  std::vector<pid_t> pids;
  std::string word;
  pid_t pid = 0;
  while (lines >> word >> pid) pids.push_back(pid);
  ASSERT_EQ(pids.size(), 4U) << front.out();
  front.signal(SIGKILL);
  EXPECT_EQ(front.wait_without_reading().signal, SIGKILL);
  for (const pid_t one : pids) EXPECT_TRUE(gone_soon(one));
}

TEST(FrameTimesTest, EveryRankTellsWhenItComputedEachFrame) {
  const ToyMesh mesh{1, 2};
  ProcessRunnerOptions options = toy_options(mesh);
  options.task.times = true;
  ProcessFrameRunner runner(options);
  uint64_t number = 1;
  (void)generate_alone(runner, kText, 4, 3, number);
  std::vector<RankFrameTimes> all = runner.take_times();
  int of_last_rank = 0;
  for (const RankFrameTimes& one : all) {
    EXPECT_LE(one.times.begin_ns, one.times.end_ns);
    of_last_rank += one.rank == 1 && one.times.number > 0 ? 1 : 0;
  }
  EXPECT_EQ(of_last_rank, static_cast<int>(number) - 1);
  EXPECT_TRUE(runner.take_times().empty());
}

}  // namespace
}  // namespace tessera::serve
