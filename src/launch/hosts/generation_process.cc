#include "launch/hosts/generation_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <vector>

#include "base/error.h"
#include "base/failure.h"

namespace tessera {
namespace {

constexpr size_t kMaxReportBytes = size_t{256} * 1024;

void write_report(int fd, const GenerationReport& report) {
  std::string bytes = to_body(report);
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.erase(0, static_cast<size_t>(written));
  }
}

// Empty where the system does not tell.
std::vector<pid_t> own_children() {
  std::ifstream file(fmt::format("/proc/self/task/{}/children", ::getpid()));
  std::vector<pid_t> children;
  for (pid_t pid = 0; file >> pid;) children.push_back(pid);
  return children;
}

}  // namespace

pid_t fork_tied(const char* name, const std::function<int()>& body) {
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  require(pid >= 0, "cannot make a process: {}", std::strerror(errno));
  if (pid > 0) return pid;
  int code = 1;
  try {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) ::_exit(1);
    ::prctl(PR_SET_NAME, name);
    code = body();
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    std::cerr << "tessera: error: " << failure.text << std::endl;
    code = static_cast<int>(failure.code);
  }
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(code);
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

GenerationProcess::GenerationProcess(const std::function<GenerationReport()>& body) {
  int ends[2];
  require(::pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe: {}", std::strerror(errno));
  report_end_ = UniqueFd(ends[0]);
  const UniqueFd theirs(ends[1]);
  ::fcntl(report_end_.get(), F_SETFL, O_NONBLOCK);
  pid_ = fork_tied("tessera-ranks", [&] {
    const GenerationReport report = body();
    write_report(theirs.get(), report);
    return report.exit_code;
  });
}

GenerationProcess::~GenerationProcess() {
  if (pid_ == 0 || reaped_) return;
  kill();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void GenerationProcess::signal(int number) const {
  if (!reaped_) ::kill(pid_, number);
}

void GenerationProcess::kill() { signal(SIGKILL); }

void GenerationProcess::read_report() {
  std::array<char, 4096> buffer;
  while (bytes_.size() < kMaxReportBytes) {
    const ssize_t got = ::read(report_end_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    bytes_.append(buffer.data(), static_cast<size_t>(got));
  }
}

bool GenerationProcess::ended(pid_t other) {
  read_report();
  if (!reaped_) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
    reaped_ = true;
    exit_ = child_exit_from(status);
    read_report();
  }
  // Ranks whose agent was killed: the kernel kills them and hands them over to this process.
  bool left = false;
  for (const pid_t child : own_children()) {
    left = (child != other && ::waitpid(child, nullptr, WNOHANG) == 0) || left;
  }
  return !left;
}

std::optional<GenerationReport> GenerationProcess::report() const {
  if (bytes_.empty()) return std::nullopt;
  try {
    return parse_report(bytes_);
  } catch (const Error&) {
    return std::nullopt;  // it died while it wrote
  }
}

}  // namespace tessera
