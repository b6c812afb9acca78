// How a process ended.
#pragma once

#include <string>

namespace tessera {

struct ChildExit {
  int code = 0;    // of exit()
  int signal = 0;  // that killed it; 0: none did

  [[nodiscard]] bool failed() const { return code != 0 || signal != 0; }
};

ChildExit child_exit_from(int wait_status);  // of waitpid

// Shells, and ranks that a signal made end in order, add this to the signal.
inline constexpr int kSignalCode = 128;

std::string signal_name(int signal);       // "SIGKILL"
std::string describe(const ChildExit& e);  // "was killed by SIGKILL", "exited with code 3"

}  // namespace tessera
