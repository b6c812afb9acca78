#include "comm/shared/waiter.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tessera::shared {
namespace {

constexpr std::chrono::microseconds kSpinTime{1000};
constexpr int kCrowdedSpins = 20;
constexpr std::chrono::microseconds kYieldTime{200};
constexpr int kSpinsPerLook = 64;  // at the clock

}  // namespace

bool reached(const Blocker& blocker) {
  const uint32_t value = blocker.word->load(std::memory_order_seq_cst);
  return static_cast<int32_t>(value - blocker.target) >= 0;
}

void announce(std::atomic<uint32_t>& word, uint32_t value, std::atomic<uint32_t>& sleepers) {
  // Either this rank sees the sleeper, or the sleeper sees the value: both are seq_cst.
  word.store(value, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool Waiter::spin(const Blocker& blocker) {
  if (spun_ == blocker.word && spun_target_ == blocker.target) return false;
  spun_ = blocker.word;
  spun_target_ = blocker.target;
  const int spins = crowded_ ? kCrowdedSpins : kSpinsPerLook;
  for (int i = 0; i < spins; ++i) {
    if (reached(blocker)) return true;
    _mm_pause();
  }
  const Clock::time_point end = Clock::now() + (crowded_ ? kYieldTime : kSpinTime);
  while (Clock::now() < end) {
    if (crowded_) {
      sched_yield();
      if (reached(blocker)) return true;
      continue;
    }
    for (int i = 0; i < kSpinsPerLook; ++i) {
      if (reached(blocker)) return true;
      _mm_pause();
    }
  }
  return false;
}

void Waiter::sleep(const Blocker& blocker, std::chrono::microseconds longest) {
  if (started_ == Clock::time_point{}) started_ = Clock::now();
  timespec span{};
  span.tv_nsec = static_cast<long>(longest.count() * 1000);  // below one second
  blocker.sleepers->fetch_add(1, std::memory_order_seq_cst);
  const uint32_t seen = blocker.word->load(std::memory_order_seq_cst);
  if (static_cast<int32_t>(seen - blocker.target) < 0) {
    syscall(SYS_futex, blocker.word, FUTEX_WAIT, seen, &span, nullptr, 0);
  }
  blocker.sleepers->fetch_sub(1, std::memory_order_relaxed);
}

std::chrono::milliseconds Waiter::waited() const {
  if (started_ == Clock::time_point{}) return std::chrono::milliseconds(0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started_);
}

}  // namespace tessera::shared
