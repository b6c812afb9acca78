// Two kinds of failure. `require` throws Error: the user can fix it, and the message holds the
// place, the value and the fix. `TESSERA_CHECK` throws InternalError: our bug.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tessera {

// Exit codes of the command line (docs/cli.md).
enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,       // usage or configuration
  kDoesNotFit = 3,  // plan --check
  kDiverged = 4,    // NaN or Inf
  kCorrupt = 65,    // a checkpoint whose bytes are not those that were written
  kAbsent = 66,     // no checkpoint, or one that was never finished
  kNoQuorum = 69,   // hosts that the run needs have not come
  kIo = 74,         // a disk that is full, read-only or fails
  kRequeue = 75,    // this host was cut off, or too often lost: the same command may go on
  kVersion = 76,    // a format that a newer Tessera wrote
  kPoison = 78,     // a step that fails whenever it is tried
  kPreempted = 85,  // asked to end, and saved before: start it again
};

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitCode code = ExitCode::kFailed)
      : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// A mistake in a flag, a run file or a model description: exit code 2.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : Error(message, ExitCode::kUsage) {}
};

// What the disk refused: exit code 74.
class IoError : public Error {
 public:
  explicit IoError(const std::string& message) : Error(message, ExitCode::kIo) {}
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <typename... Args>
void require(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) throw Error(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void require_config(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) throw ConfigError(fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line,
                                      const std::string& message) {
  throw InternalError(
      fmt::format("internal error at {}:{}: {} ({})", file, line, message, condition));
}

}  // namespace tessera

#define TESSERA_CHECK(condition, ...)                                                      \
  do {                                                                                     \
    if (!(condition))                                                                      \
      ::tessera::check_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)
