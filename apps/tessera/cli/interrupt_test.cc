#include "cli/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

namespace tessera {
namespace {

TEST(InterruptTest, TheFirstSignalIsAQuestion) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    const InterruptGuard guard;
    EXPECT_FALSE(guard.interrupted());
    std::raise(number);
    EXPECT_EQ(guard.signal(), number);
  }
  EXPECT_EQ(describe_stop(SIGINT), "^C");
  EXPECT_EQ(describe_stop(SIGTERM), "SIGTERM");
}

TEST(InterruptDeathTest, TheSecondSignalKills) {
  EXPECT_EXIT(
      {
        const InterruptGuard guard;
        std::raise(SIGINT);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        std::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST(InterruptDeathTest, TheSecondSignalSaysWhatIsLost) {
  EXPECT_EXIT(
      {
        InterruptGuard guard({.speaks = true});
        guard.report({.steps_done = 7});
        std::raise(SIGTERM);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        std::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "stopped by SIGTERM.*no weights were saved, 7 steps");
}

// The kernel repeats it every second that a process computes.
TEST(InterruptTest, ALimitOfCpuTimeAsksOnce) {
  const InterruptGuard guard;
  std::raise(SIGXCPU);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::raise(SIGXCPU);  // lived on
  EXPECT_EQ(guard.signal(), SIGXCPU);
}

// `timeout` signals a process, and then the group that it is in.
TEST(InterruptTest, TwoSignalsAtOnceAreOne) {
  const InterruptGuard guard;
  std::raise(SIGTERM);
  std::raise(SIGTERM);
  EXPECT_EQ(guard.signal(), SIGTERM);
}

TEST(InterruptTest, AClosedPipeAsksAsOftenAsItComes) {
  const InterruptGuard guard({.takes_sigpipe = true});
  for (int i = 0; i < 3; ++i) std::raise(SIGPIPE);
  EXPECT_EQ(guard.signal(), SIGPIPE);
}

TEST(InterruptTest, NohupStaysInForce) {
  std::signal(SIGHUP, SIG_IGN);
  {
    const InterruptGuard guard;
    std::raise(SIGHUP);
    EXPECT_FALSE(guard.interrupted());
  }
  EXPECT_EQ(std::signal(SIGHUP, SIG_DFL), SIG_IGN);
}

TEST(InterruptTest, AStepGetsTheTimeThatStepsTake) {
  InterruptGuard guard({.grace = std::chrono::milliseconds(0)});
  guard.report({.steps_done = 1, .longest_step_us = 60'000'000});
  std::raise(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // lived on
  EXPECT_EQ(guard.signal(), SIGTERM);
}

TEST(InterruptDeathTest, SaysWhatIsLost) {
  EXPECT_EXIT(
      {
        InterruptGuard guard({.grace = std::chrono::milliseconds(20), .speaks = true});
        std::raise(SIGTERM);
        std::this_thread::sleep_for(std::chrono::seconds(20));
      },
      ::testing::ExitedWithCode(143),
      "stopped by SIGTERM.*no weights were saved, 0 steps are lost");
}

TEST(InterruptDeathTest, GraceEndsAProcessThatDoesNotListen) {
  EXPECT_EXIT(
      {
        const InterruptGuard guard({.grace = std::chrono::milliseconds(50)});
        std::raise(SIGTERM);
        std::this_thread::sleep_for(std::chrono::seconds(20));
      },
      ::testing::ExitedWithCode(143), "");
}

TEST(InterruptTest, GraceEndsWithTheGuard) {
  {
    const InterruptGuard guard({.grace = std::chrono::milliseconds(50)});
    std::raise(SIGTERM);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // lived on
}

}  // namespace
}  // namespace tessera
