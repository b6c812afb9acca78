#include "launch/hosts/generation_process.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <vector>

#include "base/error.h"
#include "base/failure.h"
#include "launch/rendezvous/socket.h"

namespace tessera {
namespace {

// The two ends know each other: what a key would be for is not there.
constexpr const char* kNoSecret = "of one host";
constexpr std::chrono::milliseconds kReportTime{5'000};

void send_report(ControlLink& link, const GenerationReport& report) {
  link.send({.kind = ControlKind::kEnded, .body = to_body(report)});
  const Deadline deadline = std::chrono::steady_clock::now() + kReportTime;
  while (link.has_output() && wait_ready(link.fd(), POLLOUT, deadline)) link.send_some();
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

GenerationProcess::GenerationProcess(
    const std::function<GenerationReport(ControlLink& link)>& body) {
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0,
          "cannot make a pair of sockets: {}", std::strerror(errno));
  link_.emplace(UniqueFd(ends[0]), "the keeper of the ranks", /*is_host=*/true);
  ControlLink theirs(UniqueFd(ends[1]), "the agent", /*is_host=*/false);
  link_->use_key(kNoSecret);
  theirs.use_key(kNoSecret);
  pid_ = fork_tied("tessera-ranks", [&] {
    link_.reset();
    const GenerationReport report = body(theirs);
    send_report(theirs, report);
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

// One that died while it wrote has said nothing.
std::optional<ControlFrame> GenerationProcess::take() {
  try {
    link_->send_some();
    while (std::optional<ControlFrame> frame = link_->take()) {
      if (frame->kind != ControlKind::kEnded) return frame;
      report_ = parse_report(frame->body);
    }
  } catch (const Error&) {
    link_->close();
  }
  return std::nullopt;
}

bool GenerationProcess::ended(pid_t other) {
  if (!reaped_) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
    reaped_ = true;
    exit_ = child_exit_from(status);
  }
  while (take()) {
  }
  // Ranks whose agent was killed: the kernel kills them and hands them over to this process.
  bool left = false;
  for (const pid_t child : own_children()) {
    left = (child != other && ::waitpid(child, nullptr, WNOHANG) == 0) || left;
  }
  return !left;
}

}  // namespace tessera
