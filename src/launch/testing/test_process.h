// For tests: this test program started again in another role (main_test.cc), with its output
// collected and every wait bounded.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "launch/agent/child_exit.h"
#include "launch/rendezvous/host_identity.h"
#include "launch/unique_fd.h"

extern char** environ;

namespace tessera::testing {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Far above what anything here takes: reached only by something that hangs.
constexpr milliseconds kHangs{20'000};

struct ProcessOptions {
  std::vector<std::string> arguments;                   // after argv[0]
  std::map<std::string, std::string> environment = {};  // on top of that of the test
  bool own_group = false;                               // a process group of its own
};

class TestProcess {
 public:
  explicit TestProcess(const ProcessOptions& options) {
    int out[2];
    int err[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) throw Error("pipe");
    std::vector<std::string> texts = {"launch_test"};
    texts.insert(texts.end(), options.arguments.begin(), options.arguments.end());
    std::vector<char*> arguments;
    for (std::string& text : texts) arguments.push_back(text.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      if (options.own_group) ::setpgid(0, 0);
      ::dup2(out[1], 1);
      ::dup2(err[1], 2);
      for (const auto& [name, value] : options.environment) {
        ::setenv(name.c_str(), value.c_str(), 1);
      }
      ::execve("/proc/self/exe", arguments.data(), environ);
      ::_exit(126);
    }
    if (options.own_group) ::setpgid(pid_, pid_);  // whoever comes first
    out_ = UniqueFd(out[0]);
    err_ = UniqueFd(err[0]);
    ::close(out[1]);
    ::close(err[1]);
  }
  ~TestProcess() {
    if (exit_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  void signal_group(int number) const { ::kill(-pid_, number); }
  void close_out() { out_.reset(); }

  // Reads until the standard output contains `text`.
  void await_output(const std::string& text) {
    const auto deadline = Clock::now() + kHangs;
    while (out_text_.find(text) == std::string::npos) {
      if (Clock::now() >= deadline || !read_some()) {
        throw Error(fmt::format("'{}' did not appear in: {} / {}", text, out_text_, err_text_));
      }
    }
  }

  // Reads to the end and waits; fails the test when the process hangs.
  ChildExit finish() {
    const auto deadline = Clock::now() + kHangs;
    while ((out_.valid() || err_.valid()) && Clock::now() < deadline) read_some();
    return wait_without_reading(deadline);
  }
  ChildExit wait_without_reading(Clock::time_point deadline = Clock::now() + kHangs) {
    int status = 0;
    while (!exit_ && ::waitpid(pid_, &status, WNOHANG) == 0) {
      if (Clock::now() >= deadline) {
        ADD_FAILURE() << "hangs; wrote: " << out_text_ << " / " << err_text_;
        return {.code = -1, .signal = 0};
      }
      std::this_thread::sleep_for(milliseconds(2));
    }
    if (!exit_) exit_ = child_exit_from(status);
    return *exit_;
  }

  [[nodiscard]] const std::string& out() const { return out_text_; }
  [[nodiscard]] const std::string& err() const { return err_text_; }

  // Waits a moment for output. False at the end of both streams.
  bool read_some() {
    std::array<pollfd, 2> entries = {pollfd{.fd = out_.get(), .events = POLLIN, .revents = 0},
                                     pollfd{.fd = err_.get(), .events = POLLIN, .revents = 0}};
    if (!out_.valid() && !err_.valid()) return false;
    ::poll(entries.data(), entries.size(), 50);
    if (entries[0].revents != 0) read_from(out_, out_text_);
    if (entries[1].revents != 0) read_from(err_, err_text_);
    return true;
  }

 private:
  static void read_from(UniqueFd& fd, std::string& text) {
    std::array<char, 65536> buffer;
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got > 0) {
      text.append(buffer.data(), static_cast<size_t>(got));
    } else {
      fd.reset();
    }
  }

  pid_t pid_ = 0;
  UniqueFd out_;
  UniqueFd err_;
  std::string out_text_;
  std::string err_text_;
  std::optional<ChildExit> exit_;
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Whether the process ends (or has ended) soon.
inline bool gone_soon(pid_t pid) {
  const auto deadline = Clock::now() + kHangs;
  while (start_time_of(pid)) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

}  // namespace tessera::testing
