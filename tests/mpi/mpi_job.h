// A command that starts processes, run to its end by a test: what all of them printed, how it
// ended, and whether it left any of them behind.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/test_folder.h"

namespace tessera::testing {

struct JobResult {
  int code = -1;       // 128 + n after signal n, as shells count; -1: it hung and was killed
  std::string output;  // both streams of all processes
  double seconds = 0;
  int left_behind = 0;  // processes that outlived the command, by more than a moment
};

namespace job {

using Clock = std::chrono::steady_clock;

// Waits until `pid` (or any child: -1) ends. False at the deadline.
inline bool wait_for_end(pid_t pid, int& status, Clock::time_point deadline) {
  pid_t ended = 0;
  while ((ended = waitpid(pid, &status, WNOHANG)) == 0) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return ended > 0;
}

inline pid_t start(const std::vector<std::string>& command, const std::string& output) {
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const int fd = open(output.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  dup2(fd, STDOUT_FILENO);
  dup2(fd, STDERR_FILENO);
  execvp(argv[0], argv.data());
  _exit(127);
}

// Children of this process now: orphans of the job are given to it.
inline std::vector<pid_t> children() {
  const std::string path = "/proc/self/task/" + std::to_string(getpid()) + "/children";
  std::istringstream words(read_file(path));
  std::vector<pid_t> pids;
  for (pid_t pid = 0; words >> pid;) pids.push_back(pid);
  return pids;
}

// Gives orphans a moment to end by themselves; kills and counts the others.
inline int reap_orphans() {
  const auto deadline = Clock::now() + std::chrono::seconds(2);
  int status = 0;
  while (wait_for_end(-1, status, deadline)) continue;
  int killed = 0;
  for (auto left = children(); !left.empty(); left = children()) {
    for (const pid_t pid : left) {
      ++killed;
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
    }
  }
  return killed;
}

}  // namespace job

inline JobResult run_job(const std::vector<std::string>& command,
                         std::chrono::seconds limit = std::chrono::seconds(30)) {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const TestFolder folder;
  const auto begin = job::Clock::now();
  const pid_t pid = job::start(command, folder.path("output"));
  JobResult result;
  int status = 0;
  if (job::wait_for_end(pid, status, begin + limit)) {
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  result.seconds = std::chrono::duration<double>(job::Clock::now() - begin).count();
  result.left_behind = job::reap_orphans();
  result.output = read_file(folder.path("output"));
  return result;
}

}  // namespace tessera::testing
