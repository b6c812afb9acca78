#include "tensor/workers.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <thread>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int kSpins = 200;                                  // a few microseconds
constexpr auto kYieldTime = std::chrono::microseconds(200);  // then sleep
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// A word that threads wait on until it leaves a value. The writer pays for a system call only
// when somebody sleeps.
struct alignas(64) WaitWord {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};

  // Sequential consistency pairs this store with the waiter's increment of `sleepers`: either the
  // writer sees the sleeper, or the sleeper's futex call sees the new value.
  void add(uint32_t delta) {
    value.fetch_add(delta, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) != 0) {
      syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
    }
  }

  template <typename Done>
  void wait_until(const Done& done) {
    for (int i = 0; i < kSpins; ++i) {
      if (done(value.load(std::memory_order_acquire))) return;
      cpu_pause();
    }
    const auto deadline = std::chrono::steady_clock::now() + kYieldTime;
    do {
      for (int i = 0; i < 16; ++i) {
        if (done(value.load(std::memory_order_acquire))) return;
        sched_yield();
      }
    } while (std::chrono::steady_clock::now() < deadline);
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    for (;;) {
      const uint32_t seen = value.load(std::memory_order_seq_cst);
      if (done(seen)) break;
      syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    }
    sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
};

}  // namespace

struct Workers::Team {
  WaitWord regions;   // number of regions started
  WaitWord finished;  // members that finished, over all regions
  Thunk thunk = nullptr;
  const void* context = nullptr;
  bool stop = false;
  std::vector<std::thread> threads;

  // noexcept: an exception in a region is a bug, and half a team cannot go on.
  void member_loop(int member) noexcept {
    for (uint32_t seen = 0;; ++seen) {
      regions.wait_until([&](uint32_t value) { return value != seen; });
      if (stop) return;
      thunk(context, member);
      finished.add(1);
    }
  }
};

Workers::Workers(int num_threads) : num_threads_(num_threads) {
  TESSERA_CHECK(num_threads >= 1, "a team of {} threads", num_threads);
  if (num_threads == 1) return;
  team_ = std::make_unique<Team>();
  team_->threads.reserve(static_cast<size_t>(num_threads - 1));
  for (int member = 1; member < num_threads; ++member) {
    team_->threads.emplace_back([team = team_.get(), member] { team->member_loop(member); });
  }
}

Workers::~Workers() {
  if (team_ == nullptr) return;
  team_->stop = true;
  team_->regions.add(1);
  for (std::thread& thread : team_->threads) thread.join();
}

void Workers::run_erased(Thunk thunk, const void* context) noexcept {
  if (team_ == nullptr) {
    thunk(context, 0);
    return;
  }
  Team& team = *team_;
  team.thunk = thunk;
  team.context = context;
  const uint32_t target =
      team.finished.value.load(std::memory_order_relaxed) + static_cast<uint32_t>(num_threads_ - 1);
  team.regions.add(1);
  thunk(context, 0);
  team.finished.wait_until([&](uint32_t value) { return value == target; });
}

}  // namespace tessera
