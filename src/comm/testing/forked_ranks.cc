#include "comm/testing/forked_ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>

#include "base/error.h"

namespace tessera::testing {
namespace {

constexpr std::string_view kErrorPrefix = "error: ";

// What precedes the text of a line in the pipe.
struct LineHeader {
  int64_t at_ns = 0;
  uint64_t size = 0;
};

void write_all(int fd, const void* data, size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(fd, from, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) _exit(125);  // nobody listens any more
    from += written;
    size -= static_cast<size_t>(written);
  }
}

bool begins_with(const std::string& text, const std::string& begin) {
  return text.compare(0, begin.size(), begin) == 0;
}

const RankLine* find_line(const RankEnd& end, const std::string& begin) {
  const auto found = std::find_if(end.lines.begin(), end.lines.end(), [&](const RankLine& line) {
    return begins_with(line.text, begin);
  });
  return found == end.lines.end() ? nullptr : &*found;
}

}  // namespace

void RankVoice::say(const std::string& text) const {
  const auto now = TestClock::now().time_since_epoch();
  const LineHeader header = {std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                             text.size()};
  write_all(fd_, &header, sizeof(header));
  write_all(fd_, text.data(), text.size());
}

std::string RankEnd::error() const {
  const RankLine* line = find_line(*this, std::string(kErrorPrefix));
  return line == nullptr ? "" : line->text.substr(kErrorPrefix.size());
}

TestClock::time_point RankEnd::time_of(const std::string& begin) const {
  const RankLine* line = find_line(*this, begin);
  require(line != nullptr, "the rank did not say '{}'", begin);
  return line->at;
}

ForkedRanks::ForkedRanks(int size, const Body& body)
    : parent_(getpid()), children_(static_cast<size_t>(size)) {
  for (int rank = 0; rank < size; ++rank) {
    int fds[2];
    require(pipe2(fds, O_CLOEXEC) == 0, "no pipe for rank {}: {}", rank, std::strerror(errno));
    const pid_t pid = fork();
    require(pid >= 0, "no process for rank {}: {}", rank, std::strerror(errno));
    if (pid == 0) {
      close(fds[0]);
      be_child(rank, fds[1], body);
    }
    close(fds[1]);
    child(rank).pid = pid;
    child(rank).fd = fds[0];
  }
}

ForkedRanks::~ForkedRanks() {
  for (Child& child : children_) {
    if (!child.reaped) {
      ::kill(child.pid, SIGKILL);
      waitpid(child.pid, nullptr, 0);
    }
    close(child.fd);
  }
}

const ForkedRanks::Child& ForkedRanks::child(int rank) const {
  return children_[static_cast<size_t>(rank)];
}

ForkedRanks::Child& ForkedRanks::child(int rank) { return children_[static_cast<size_t>(rank)]; }

void ForkedRanks::be_child(int rank, int fd, const Body& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent_) _exit(125);  // it died before the line above
  for (int other = 0; other < rank; ++other) close(child(other).fd);
  const RankVoice voice(fd);
  int code = 0;
  try {
    body(rank, voice);
  } catch (const std::exception& error) {
    voice.say(std::string(kErrorPrefix) + error.what());
    code = 1;
  }
  _exit(code);  // without the parent's buffers and destructors
}

void ForkedRanks::signal(int rank, int number) const { ::kill(pid(rank), number); }

void ForkedRanks::kill_all() const {
  for (const Child& child : children_) ::kill(child.pid, SIGKILL);
}

void ForkedRanks::read_lines(Child& child) {
  char buffer[4096];
  const ssize_t size = read(child.fd, buffer, sizeof(buffer));
  if (size <= 0) return;
  child.unread.append(buffer, static_cast<size_t>(size));
  for (;;) {
    LineHeader header;
    if (child.unread.size() < sizeof(header)) return;
    std::memcpy(&header, child.unread.data(), sizeof(header));
    if (child.unread.size() < sizeof(header) + header.size) return;
    const TestClock::time_point at(std::chrono::nanoseconds(header.at_ns));
    child.end.lines.push_back({at, child.unread.substr(sizeof(header), header.size)});
    child.unread.erase(0, sizeof(header) + header.size);
  }
}

void ForkedRanks::reap(Child& child) {
  int status = 0;
  if (child.reaped || waitpid(child.pid, &status, WNOHANG) != child.pid) return;
  child.reaped = true;
  child.end.at = TestClock::now();
  if (WIFEXITED(status)) child.end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) child.end.signal = WTERMSIG(status);
  // What it said before it ended.
  pollfd last = {child.fd, POLLIN, 0};
  while (poll(&last, 1, 0) == 1 && (last.revents & POLLIN) != 0) read_lines(child);
}

void ForkedRanks::listen(std::chrono::milliseconds patience) {
  std::vector<pollfd> fds;
  for (const Child& child : children_) {
    // A pipe whose writer is gone would end every poll at once.
    fds.push_back({child.reaped ? -1 : child.fd, POLLIN, 0});
  }
  poll(fds.data(), fds.size(), static_cast<int>(patience.count()));
  for (size_t i = 0; i < fds.size(); ++i) {
    if ((fds[i].revents & POLLIN) != 0) read_lines(children_[i]);
    reap(children_[i]);
  }
}

RankLine ForkedRanks::wait_for_line(int rank, const std::string& begin,
                                    std::chrono::milliseconds patience) {
  const TestClock::time_point deadline = TestClock::now() + patience;
  for (;;) {
    if (const RankLine* line = find_line(child(rank).end, begin)) return *line;
    require(!child(rank).reaped, "rank {} ended before it said '{}': {}", rank, begin,
            child(rank).end.error());
    require(TestClock::now() < deadline, "rank {} did not say '{}' within {} ms", rank, begin,
            patience.count());
    listen(std::chrono::milliseconds(2));
  }
}

void ForkedRanks::wait_for_end(int rank, std::chrono::milliseconds patience) {
  const TestClock::time_point deadline = TestClock::now() + patience;
  while (!child(rank).reaped) {
    require(TestClock::now() < deadline, "rank {} did not end within {} ms", rank,
            patience.count());
    listen(std::chrono::milliseconds(2));
  }
}

std::vector<RankEnd> ForkedRanks::finish(std::chrono::milliseconds patience) {
  const TestClock::time_point deadline = TestClock::now() + patience;
  const auto all_ended = [&] {
    return std::all_of(children_.begin(), children_.end(), [](const Child& c) { return c.reaped; });
  };
  while (!all_ended() && TestClock::now() < deadline) listen(std::chrono::milliseconds(2));
  for (Child& child : children_) {
    if (child.reaped) continue;
    child.end.hung = true;
    ::kill(child.pid, SIGKILL);
    while (!child.reaped) listen(std::chrono::milliseconds(2));
  }
  std::vector<RankEnd> ends;
  for (const Child& child : children_) ends.push_back(child.end);
  return ends;
}

}  // namespace tessera::testing
