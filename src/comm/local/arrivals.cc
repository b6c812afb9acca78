#include "comm/local/arrivals.h"

namespace tessera {
namespace {

// What a withdrawal takes away: far more than the arrivals of a phase, far less than half the
// range.
constexpr uint32_t kWithdrawn = uint32_t{1} << 30;

}  // namespace

void Arrivals::arrive(uint32_t target) {
  const uint32_t now = count_.fetch_add(1, std::memory_order_seq_cst) + 1;
  if (now == target) wake_all(count_, sleepers_);
}

WaitResult Arrivals::wait(uint32_t target, const AbortFlag* abort,
                          std::chrono::milliseconds timeout) {
  return wait_at_least(count_, target, abort, timeout, &sleepers_);
}

bool Arrivals::withdraw(uint32_t target) {
  uint32_t now = count_.load(std::memory_order_acquire);
  while (true) {
    const auto missing = static_cast<int32_t>(target - now);
    if (missing <= 0) return false;
    const bool withdrawn_before = missing > static_cast<int32_t>(kWithdrawn / 2);
    if (withdrawn_before) return true;
    if (count_.compare_exchange_weak(now, now - kWithdrawn, std::memory_order_acq_rel)) return true;
  }
}

}  // namespace tessera
