#include "launch/agent/child_watch.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "base/error.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kAskEvery{20};  // children without a pidfd
constexpr milliseconds kLongSleep{60'000};
// After SIGKILL only a process that hangs inside the kernel is still there.
constexpr milliseconds kDieTime{2'000};

// By number: C libraries of the last years lack a wrapper. The descriptor is close-on-exec.
UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
}

}  // namespace

ChildWatch::~ChildWatch() {
  kill_running();
  const auto deadline = Clock::now() + kDieTime;
  for (Child& child : children_) {
    while (!has_ended(child) && Clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
}

void ChildWatch::add(pid_t pid) {
  children_.emplace_back();
  children_.back().pid = pid;
  ++num_running_;
}

void ChildWatch::add_absent() {
  children_.emplace_back();
  children_.back().exit = ChildExit{};
}

void ChildWatch::open_pidfds() {
  for (Child& child : children_) {
    if (!child.exit) child.pidfd = open_pidfd(child.pid);
  }
}

void ChildWatch::add_to(PollSet& set) {
  for (Child& child : children_) {
    const bool watched = !child.exit && child.pidfd.valid();
    child.slot = watched ? set.add(child.pidfd.get(), POLLIN) : PollSet::kNone;
  }
}

milliseconds ChildWatch::longest_sleep() const {
  for (const Child& child : children_) {
    if (!child.exit && !child.pidfd.valid()) return kAskEvery;
  }
  return kLongSleep;
}

std::vector<int> ChildWatch::reap(const PollSet& set) {
  std::vector<int> ended;
  for (size_t i = 0; i < children_.size(); ++i) {
    Child& child = children_[i];
    if (child.exit || (child.slot != PollSet::kNone && !set.ready(child.slot))) continue;
    if (has_ended(child)) ended.push_back(static_cast<int>(i));
  }
  return ended;
}

bool ChildWatch::has_ended(Child& child) {
  if (child.exit) return true;
  int status = 0;
  const pid_t got = ::waitpid(child.pid, &status, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return false;
  TESSERA_CHECK(got == child.pid, "waitpid({}): {}", child.pid, std::strerror(errno));
  child.exit = child_exit_from(status);
  child.pidfd.reset();
  --num_running_;
  return true;
}

bool ChildWatch::stopped(int child) const {
  if (!running(child)) return false;
  std::ifstream file(fmt::format("/proc/{}/stat", pid(child)));
  std::string line;
  if (!std::getline(file, line)) return false;
  const size_t name_end = line.rfind(") ");
  return name_end != std::string::npos && line.compare(name_end + 2, 1, "T") == 0;
}

void ChildWatch::kill_running() {
  // A pid is not given away before it is reaped, so this hits nobody else.
  for (const Child& child : children_) {
    if (!child.exit) ::kill(child.pid, SIGKILL);
  }
}

void ChildWatch::kill_child(int child) {
  const Child& one = children_[static_cast<size_t>(child)];
  if (!one.exit) ::kill(one.pid, SIGKILL);
}

void ChildWatch::continue_running() {
  for (const Child& child : children_) {
    if (!child.exit) ::kill(child.pid, SIGCONT);
  }
}

}  // namespace tessera
