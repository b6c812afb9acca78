// Bounded waiting on an atomic word: spin a little, yield, then sleep on a futex in short slices.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tessera {

// Set once by whoever sees a failure first; every waiter polls it. Never reset.
class AbortFlag {
 public:
  [[nodiscard]] bool raised() const { return word_.load(std::memory_order_acquire) != 0; }
  void raise() { word_.store(1, std::memory_order_release); }

 private:
  std::atomic<uint32_t> word_{0};
};

enum class WaitResult { kReady, kAborted, kTimeout };

// Waits until `word` is at least `target` (as a monotone counter that may wrap). Sleeps at most 50
// ms at a time, so an abort is noticed within that; a word that has arrived wins over an abort.
// `abort` may be null. `sleepers`, where given, counts the threads asleep on `word` for the
// wake_all below.
WaitResult wait_at_least(const std::atomic<uint32_t>& word, uint32_t target, const AbortFlag* abort,
                         std::chrono::milliseconds timeout,
                         std::atomic<uint32_t>* sleepers = nullptr);

// Wakes every waiter of `word`; cheap when nobody sleeps is not assumed, so call it once per store.
void wake_all(std::atomic<uint32_t>& word);

// The same without a system call when nobody sleeps. Every waiter of `word` must pass `sleepers`,
// and the change of `word` before this call must be seq_cst.
void wake_all(std::atomic<uint32_t>& word, const std::atomic<uint32_t>& sleepers);

// Stores and wakes.
void publish(std::atomic<uint32_t>& word, uint32_t value);

}  // namespace tessera
