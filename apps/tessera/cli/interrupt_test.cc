#include "cli/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

namespace tessera {
namespace {

TEST(InterruptTest, TheFirstSignalIsAQuestion) {
  for (const int number : {SIGINT, SIGTERM}) {
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
        std::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST(InterruptDeathTest, GraceEndsAProcessThatDoesNotListen) {
  EXPECT_EXIT(
      {
        const InterruptGuard guard(std::chrono::milliseconds(50));
        std::raise(SIGTERM);
        std::this_thread::sleep_for(std::chrono::seconds(20));
      },
      ::testing::ExitedWithCode(143), "");
}

TEST(InterruptTest, GraceEndsWithTheGuard) {
  {
    const InterruptGuard guard(std::chrono::milliseconds(50));
    std::raise(SIGTERM);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // lived on
}

}  // namespace
}  // namespace tessera
