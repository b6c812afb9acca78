// SIGINT as a question instead of a death, for as long as one of these lives: the first ^C makes
// interrupted() true so that the run can end in order, the second one kills. One at a time.
#pragma once

namespace tessera {

class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();  // SIGINT kills again
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] bool interrupted() const;
};

}  // namespace tessera
