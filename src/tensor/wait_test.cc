#include "tensor/wait.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tessera {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST(WaitTest, ReadyAtOnceAndAcrossTheWrap) {
  std::atomic<uint32_t> word{5};
  EXPECT_EQ(wait_at_least(word, 5, nullptr, milliseconds(0)), WaitResult::kReady);
  word = 3;
  EXPECT_EQ(wait_at_least(word, 0xfffffff0U, nullptr, milliseconds(0)), WaitResult::kReady);
  EXPECT_EQ(wait_at_least(word, 4, nullptr, milliseconds(0)), WaitResult::kTimeout);
}

TEST(WaitTest, TimesOutAfterTheTime) {
  std::atomic<uint32_t> word{0};
  const Clock::time_point start = Clock::now();
  EXPECT_EQ(wait_at_least(word, 1, nullptr, milliseconds(20)), WaitResult::kTimeout);
  EXPECT_GE(Clock::now() - start, milliseconds(20));
}

TEST(WaitTest, HugeTimeoutDoesNotOverflow) {
  std::atomic<uint32_t> word{0};
  std::thread publisher([&] {
    std::this_thread::sleep_for(milliseconds(5));
    publish(word, 1);
  });
  EXPECT_EQ(wait_at_least(word, 1, nullptr, milliseconds::max()), WaitResult::kReady);
  publisher.join();
}

TEST(WaitTest, AbortIsNoticedButArrivalWins) {
  std::atomic<uint32_t> word{0};
  AbortFlag abort;
  std::thread raiser([&] {
    std::this_thread::sleep_for(milliseconds(5));
    abort.raise();
  });
  const Clock::time_point start = Clock::now();
  EXPECT_EQ(wait_at_least(word, 1, &abort, milliseconds(20'000)), WaitResult::kAborted);
  EXPECT_LT(Clock::now() - start, milliseconds(1000));
  raiser.join();
  word = 1;
  EXPECT_EQ(wait_at_least(word, 1, &abort, milliseconds(0)), WaitResult::kReady);
}

// Sleepers that were missed would cost 50 ms each round.
TEST(WaitTest, CountedSleepersAreWoken) {
  constexpr uint32_t kRounds = 40;
  std::atomic<uint32_t> word{0};
  std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> answer{0};
  std::thread waiter([&] {
    for (uint32_t round = 1; round <= kRounds; ++round) {
      EXPECT_EQ(wait_at_least(word, round, nullptr, milliseconds(20'000), &sleepers),
                WaitResult::kReady);
      publish(answer, round);
    }
  });
  const Clock::time_point start = Clock::now();
  for (uint32_t round = 1; round <= kRounds; ++round) {
    while (sleepers == 0) std::this_thread::yield();
    word.fetch_add(1);
    wake_all(word, sleepers);
    EXPECT_EQ(wait_at_least(answer, round, nullptr, milliseconds(20'000)), WaitResult::kReady);
  }
  EXPECT_LT(Clock::now() - start, kRounds * milliseconds(50) / 2);
  waiter.join();
  EXPECT_EQ(sleepers, 0U);
}

}  // namespace
}  // namespace tessera
