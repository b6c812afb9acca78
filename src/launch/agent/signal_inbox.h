// The signals of launch/stop_signals.h as messages instead of interruptions, for as long as one of
// these lives.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

#include "launch/poll_set.h"
#include "launch/unique_fd.h"

namespace tessera {

// Blocks the signals for the calling thread, which must be the only one that could receive them.
// SIGPIPE is blocked too: a reader that went away is an error of write().
class SignalInbox {
 public:
  SignalInbox();
  ~SignalInbox();  // forgets signals not taken; the signal mask is as before
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  [[nodiscard]] const sigset_t& previous_mask() const { return previous_mask_; }

  void add_to(PollSet& set) const;  // becomes ready with a signal
  [[nodiscard]] std::chrono::milliseconds longest_sleep() const;
  // The next signal, if one comes within `time`.
  std::optional<int> take(std::chrono::milliseconds time = {});

 private:
  sigset_t awaited_{};
  sigset_t blocked_{};
  sigset_t previous_mask_{};
  UniqueFd wake_;  // absent where descriptors are used up: then take() is asked in turns
};

}  // namespace tessera
