// Work for a disk on a thread of its own, so that steps go on however slow the disk is.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "checkpoint/store/file_ops.h"

namespace tessera {

// For one thread. The thread of the action owns what it uses, so that a disk that never answers can
// be left to itself.
class DiskTask {
 public:
  // Returns what the caller is to know. It must own all that it uses. Once it is asked to stop, the
  // next change of a file throws Error.
  using Action = std::function<std::string(FileOps& files)>;

  explicit DiskTask(std::shared_ptr<FileOps> files);
  // Asks the action to stop and waits for the call of the disk at hand, but not for long.
  ~DiskTask();
  DiskTask(const DiskTask&) = delete;
  DiskTask& operator=(const DiskTask&) = delete;

  void start(Action action);  // while none is under way
  [[nodiscard]] bool busy() const;
  // Returns whether it is done.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds time) const;
  // How often the action has got on; stands still while the disk does not answer.
  [[nodiscard]] int64_t changes() const;

  struct Result {
    std::string text;     // what the action returned
    std::string failure;  // why it did not: what the disk refused
    double seconds = 0;
  };
  // The result of an action that is done. Throws what the action threw and no Error is.
  [[nodiscard]] Result take();

 private:
  struct State;
  std::shared_ptr<FileOps> files_;
  std::shared_ptr<State> state_;  // null: nothing was started, or its result was taken
  std::thread thread_;
};

}  // namespace tessera
