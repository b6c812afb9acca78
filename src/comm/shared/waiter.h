// How a rank waits for a word of a peer: spin when cores are free, yield at once when they are not,
// sleep on a futex last. Waking a sleeper costs 70 us between cores of a virtual machine, so a spin
// of up to a millisecond pays; where threads outnumber cores every spin delays the peer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tessera::shared {

// What a call waits for: `word` reaching `target` as a counter that may wrap.
struct Blocker {
  const std::atomic<uint32_t>* word = nullptr;
  uint32_t target = 0;
  std::atomic<uint32_t>* sleepers = nullptr;
  int peer = -1;         // group rank whose word it is
  bool leaving = false;  // the peer has arrived and moves data
};

bool reached(const Blocker& blocker);

// Stores and wakes whoever sleeps on the word.
void announce(std::atomic<uint32_t>& word, uint32_t value, std::atomic<uint32_t>& sleepers);

class Waiter {
 public:
  explicit Waiter(bool crowded) : crowded_(crowded) {}

  // True when the word was reached while spinning and yielding, which happens once for each word.
  bool spin(const Blocker& blocker);
  // Sleeps until the word changes, `longest` at most.
  void sleep(const Blocker& blocker, std::chrono::microseconds longest);
  // Since the first sleep.
  [[nodiscard]] std::chrono::milliseconds waited() const;

 private:
  using Clock = std::chrono::steady_clock;

  bool crowded_;
  const std::atomic<uint32_t>* spun_ = nullptr;
  uint32_t spun_target_ = 0;
  Clock::time_point started_{};
};

}  // namespace tessera::shared
