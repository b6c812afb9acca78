// The right to write into a run directory, which one run has at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/error.h"
#include "launch/unique_fd.h"

namespace tessera {

// Somebody else is writing there. The message says who: pid and host.
class RunDirectoryInUse : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

// Holds FOLDER/run.lock, a file that says who uses the folder, locked with flock(2): the kernel
// lets go of it however this process ends. Where the file system has no flock, the file alone is
// the lock, and one whose process is gone is taken over; a process of another machine cannot be
// asked, so its file must be removed by hand. The destructor removes the file.
class RunLock {
 public:
  using Flock = std::function<int(int descriptor, int operation)>;  // as flock(2)

  // Throws RunDirectoryInUse, or ConfigError when the folder cannot be written.
  static RunLock take(const std::string& folder);
  static RunLock take(const std::string& folder, const Flock& lock);

  ~RunLock();
  RunLock(RunLock&&) noexcept = default;
  RunLock& operator=(RunLock&&) = delete;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  RunLock(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
  void say_who() const;

  std::string path_;
  UniqueFd file_;
};

// "pid 4711 on host a" of a run that uses the folder; nothing where there is none. Changes nothing.
std::optional<std::string> user_of_run_directory(const std::string& folder);

}  // namespace tessera
