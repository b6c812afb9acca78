#include "launch/agent/child_exit.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>

namespace tessera {

ChildExit child_exit_from(int wait_status) {
  if (WIFSIGNALED(wait_status)) return {.code = 0, .signal = WTERMSIG(wait_status)};
  return {.code = WEXITSTATUS(wait_status), .signal = 0};
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

std::string describe(const ChildExit& e) {
  if (e.signal != 0) return fmt::format("was killed by {}", signal_name(e.signal));
  return fmt::format("exited with code {}", e.code);
}

}  // namespace tessera
