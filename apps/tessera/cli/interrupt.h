// SIGINT and SIGTERM as a question instead of a death, for as long as one of these lives: the first
// one makes signal() tell which it was, so that the run can end in order; the second one kills. One
// at a time.
#pragma once

#include <chrono>
#include <string>

namespace tessera {

inline constexpr int kSignalCode = 128;  // added to the signal that stopped a run, as shells count

class InterruptGuard {
 public:
  // With a `grace` above 0 the process ends that long after the first signal, with its code,
  // whatever it is doing then.
  explicit InterruptGuard(std::chrono::milliseconds grace = std::chrono::milliseconds(0));
  ~InterruptGuard();  // the signals kill again
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] int signal() const;  // 0: none yet
  [[nodiscard]] bool interrupted() const { return signal() != 0; }
};

std::string describe_stop(int signal);  // "^C", "SIGTERM"

}  // namespace tessera
