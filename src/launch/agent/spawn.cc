#include "launch/agent/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "launch/oom_score.h"
#include "launch/unique_fd.h"

namespace tessera {
namespace {

constexpr int kStartMilliseconds = 20'000;  // from fork to exec, on a very busy machine
constexpr int kNeverStarted = 127;

// What the child tells when it cannot become the program.
struct StartFailure {
  const char* step = nullptr;  // a literal: the same address in parent and child
  int error = 0;
};

// Everything the child needs, made before the fork: it may only make plain system calls after it.
struct Prepared {
  std::vector<std::string> texts;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  cpu_set_t cpus;
};

std::vector<char*> null_ended(std::vector<std::string>& texts, size_t begin, size_t end) {
  std::vector<char*> pointers;
  for (size_t i = begin; i < end; ++i) pointers.push_back(texts[i].data());
  pointers.push_back(nullptr);
  return pointers;
}

Prepared prepare(const SpawnRequest& request) {
  Prepared prepared;
  prepared.texts = request.arguments;
  for (const auto& [name, value] : request.environment) {
    prepared.texts.push_back(fmt::format("{}={}", name, value));
  }
  const size_t num_arguments = request.arguments.size();
  prepared.arguments = null_ended(prepared.texts, 0, num_arguments);
  prepared.environment = null_ended(prepared.texts, num_arguments, prepared.texts.size());
  CPU_ZERO(&prepared.cpus);
  for (const int cpu : request.cpus) CPU_SET(static_cast<size_t>(cpu), &prepared.cpus);
  return prepared;
}

[[noreturn]] void give_up(int report_fd, const char* step, int error) {
  const StartFailure failure{.step = step, .error = error};
  // If this fails too, the parent still sees the exit code.
  [[maybe_unused]] const ssize_t written = ::write(report_fd, &failure, sizeof(failure));
  ::_exit(kNeverStarted);
}

bool take_descriptor(int fd, int number) {
  if (fd == number) return ::fcntl(fd, F_SETFD, 0) == 0;
  return ::dup2(fd, number) == number;
}

[[noreturn]] void become(const SpawnRequest& request, const Prepared& prepared, pid_t parent,
                         int report_fd) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(report_fd, "tie it to its parent", errno);
  if (::getppid() != parent) ::_exit(kNeverStarted);  // the parent died before the line above
  if (!take_descriptor(request.stdin_fd, 0) || !take_descriptor(request.stdout_fd, 1) ||
      !take_descriptor(request.stderr_fd, 2)) {
    give_up(report_fd, "connect its input and output", errno);
  }
  for (const int fd : {request.inherited_fd, request.kept_fd}) {
    if (fd >= 0 && ::fcntl(fd, F_SETFD, 0) != 0) {
      give_up(report_fd, "hand over its memory", errno);
    }
  }
  if (request.listener_fd >= 0 && ::fcntl(request.listener_fd, F_SETFD, 0) != 0) {
    give_up(report_fd, "hand over its socket", errno);
  }
  // Refused where a container changed the allowed cores just now; an unpinned rank is no error.
  if (!request.cpus.empty()) ::sched_setaffinity(0, sizeof(prepared.cpus), &prepared.cpus);
  raise_oom_score(request.oom_score);
  ::signal(SIGINT, SIG_IGN);
  if (::sigprocmask(SIG_SETMASK, &request.signal_mask, nullptr) != 0) {
    give_up(report_fd, "restore its signal mask", errno);
  }
  ::execve(request.executable.c_str(), prepared.arguments.data(), prepared.environment.data());
  give_up(report_fd, "execute the program", errno);
}

const char* advice(int error) {
  switch (error) {
    case EAGAIN:
      return ": the limit on processes is reached; see 'ulimit -u', or start fewer ranks";
    case ENOMEM:
      return ": start fewer ranks, or free memory";
    case EMFILE:
    case ENFILE:
      return ": the limit on open files is reached; raise it with 'ulimit -n', or start fewer "
             "ranks";
    default:
      return "";
  }
}

[[noreturn]] void fail(const SpawnRequest& request, const char* step, int error) {
  throw Error(fmt::format("cannot start {} ({}): cannot {}: {}{}", request.name, request.executable,
                          step, std::strerror(error), advice(error)));
}

void reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// Reads what `become` reports; the pipe closes without a word when the program starts.
void await_start(const SpawnRequest& request, pid_t pid, int report_fd) {
  pollfd entry{.fd = report_fd, .events = POLLIN, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&entry, 1, kStartMilliseconds);
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) {
    ::kill(pid, SIGKILL);
    reap(pid);
    fail(request, "execute the program", ETIMEDOUT);
  }
  StartFailure failure;
  ssize_t got = 0;
  do {
    got = ::read(report_fd, &failure, sizeof(failure));
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof(failure))) return;
  reap(pid);
  fail(request, failure.step, failure.error);
}

}  // namespace

pid_t spawn_child(const SpawnRequest& request) {
  const Prepared prepared = prepare(request);
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) fail(request, "open a pipe", errno);
  const UniqueFd report_end(report[0]);
  UniqueFd child_end(report[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(request, prepared, parent, child_end.get());
  if (pid < 0) fail(request, "make a process", errno);
  child_end.reset();
  await_start(request, pid, report_end.get());
  return pid;
}

void open_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is `fd`.
    const int opened = ::open("/dev/null", O_RDWR);
    require(opened == fd, "cannot open /dev/null: {}", std::strerror(errno));
  }
}

}  // namespace tessera
