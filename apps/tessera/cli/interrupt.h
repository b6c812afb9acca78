// SIGINT, SIGTERM and the like (launch/stop_signals.h) as a question instead of a death, for as
// long as one of these lives: the first one makes signal() tell which it was, so that the run can
// end in order; the second one kills. SIGPIPE may ask too, as often as it comes: nobody reads the
// output any more. What is ignored, as SIGHUP under nohup, stays so. One at a time.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "comm/run_state.h"
#include "launch/agent/child_exit.h"

namespace tessera {

struct InterruptOptions {
  // None: the run may take for its end as long as it wants. Else the process ends, with the code of
  // the signal, when what it needs by stop_time() (launch/stop_time.h) is over.
  std::optional<std::chrono::milliseconds> grace = std::nullopt;
  bool speaks = false;       // says at a signal that the step is being finished, and what was lost
  bool takes_sigint = true;  // false: whoever started this process deals with ^C
  bool takes_sigpipe = false;
};

class InterruptGuard {
 public:
  explicit InterruptGuard(InterruptOptions options = {});
  ~InterruptGuard();  // the signals kill again
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] int signal() const;  // 0: none yet
  [[nodiscard]] bool interrupted() const { return signal() != 0; }

  // How far the run is, for the time that its end gets. From any thread.
  void report(const RunState& state);
};

std::string describe_stop(int signal);  // "^C", "SIGTERM"

}  // namespace tessera
