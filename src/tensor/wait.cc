#include "tensor/wait.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// Ranks usually outnumber cores: a long spin only delays the peer it waits for.
constexpr int kSpins = 30;
constexpr std::chrono::microseconds kYieldTime{80};
constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::milliseconds(50);
constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::hours(24 * 365);

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

bool reached(uint32_t value, uint32_t target) { return static_cast<int32_t>(value - target) >= 0; }

void futex_wait(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds time) {
  timespec span{};
  span.tv_nsec = static_cast<long>(time.count());  // below one second
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &span, nullptr, 0);
}

}  // namespace

WaitResult wait_at_least(const std::atomic<uint32_t>& word, uint32_t target, const AbortFlag* abort,
                         std::chrono::milliseconds timeout, std::atomic<uint32_t>* sleepers) {
  const auto arrived = [&] { return reached(word.load(std::memory_order_acquire), target); };
  for (int i = 0; i < kSpins; ++i) {
    if (arrived()) return WaitResult::kReady;
    _mm_pause();
  }
  const Clock::time_point start = Clock::now();
  const Clock::time_point deadline = start + std::min(timeout, kLongestTimeout);
  while (true) {
    // The flag is read before the word: whoever raised it after a store makes us see that store.
    const bool aborted = abort != nullptr && abort->raised();
    if (arrived()) return WaitResult::kReady;
    if (aborted) return WaitResult::kAborted;
    const Clock::time_point now = Clock::now();
    if (now >= deadline) return WaitResult::kTimeout;
    if (now - start < kYieldTime) {
      sched_yield();
      continue;
    }
    // Either the publisher sees this sleeper, or this sleeper sees its value (both are seq_cst).
    if (sleepers != nullptr) sleepers->fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = word.load(std::memory_order_seq_cst);
    if (!reached(seen, target)) {
      futex_wait(word, seen, std::min<std::chrono::nanoseconds>(deadline - now, kLongestSleep));
    }
    if (sleepers != nullptr) sleepers->fetch_sub(1, std::memory_order_relaxed);
  }
}

void wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void wake_all(std::atomic<uint32_t>& word, const std::atomic<uint32_t>& sleepers) {
  if (sleepers.load(std::memory_order_seq_cst) != 0) wake_all(word);
}

void publish(std::atomic<uint32_t>& word, uint32_t value) {
  word.store(value, std::memory_order_release);
  wake_all(word);
}

}  // namespace tessera
