// Waits for several child processes at once. A pidfd per child wakes the event loop; children that
// the system gives no pidfd for (old kernel, descriptors used up) are asked in turns instead.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <vector>

#include "launch/agent/child_exit.h"
#include "launch/poll_set.h"
#include "launch/unique_fd.h"

namespace tessera {

class ChildWatch {
 public:
  ChildWatch() = default;
  // Kills and reaps those that still run: no child outlives its watch.
  ~ChildWatch();
  ChildWatch(const ChildWatch&) = delete;
  ChildWatch& operator=(const ChildWatch&) = delete;

  // Children are numbered in the order in which they are added.
  void add(pid_t pid);
  void add_absent();  // a number for none, as of one that has ended well
  // After all have been started, so that pidfds do not take descriptors which starting needs.
  void open_pidfds();

  void add_to(PollSet& set);
  // How long an event loop may sleep and still notice the end of a child in time.
  [[nodiscard]] std::chrono::milliseconds longest_sleep() const;
  // The children that have ended since the last call.
  std::vector<int> reap(const PollSet& set);

  [[nodiscard]] int num_running() const { return num_running_; }
  [[nodiscard]] bool running(int child) const { return !exit_of(child).has_value(); }
  // The system does not let it run (SIGSTOP); not of one that a debugger holds.
  [[nodiscard]] bool stopped(int child) const;
  [[nodiscard]] pid_t pid(int child) const { return children_[static_cast<size_t>(child)].pid; }
  [[nodiscard]] const std::optional<ChildExit>& exit_of(int child) const {
    return children_[static_cast<size_t>(child)].exit;
  }
  void kill_running();
  void kill_child(int child);  // nothing where it has ended
  void continue_running();     // those that were stopped by SIGSTOP go on

 private:
  struct Child {
    pid_t pid = 0;
    UniqueFd pidfd;
    size_t slot = PollSet::kNone;
    std::optional<ChildExit> exit;
  };
  bool has_ended(Child& child);

  std::vector<Child> children_;
  int num_running_ = 0;
};

}  // namespace tessera
