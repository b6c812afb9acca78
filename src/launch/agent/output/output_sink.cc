#include "launch/agent/output/output_sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace tessera {
namespace {

// O_NONBLOCK on the descriptor itself would change it for every process that shares it.
UniqueFd open_again_without_blocking(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return UniqueFd();
  if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)) return UniqueFd();
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  return UniqueFd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

// As many whole lines as one write puts there in one piece; a longer line goes alone.
size_t next_piece(const std::string& queue) {
  if (queue.size() <= PIPE_BUF) return queue.size();
  const size_t last = queue.rfind('\n', PIPE_BUF - 1);
  if (last != std::string::npos) return last + 1;
  return queue.find('\n') + 1;
}

}  // namespace

OutputSink::OutputSink(int fd)
    : own_(open_again_without_blocking(fd)), fd_(own_.valid() ? own_.get() : fd) {}

void OutputSink::add_to(PollSet& set) {
  slot_ = queue_.empty() ? PollSet::kNone : set.add(fd_, POLLOUT);
}

void OutputSink::write_ready(const PollSet& set) {
  if (!set.ready(slot_)) return;
  while (!queue_.empty() && write_once() && own_.valid()) {
  }
}

bool OutputSink::write_once() {
  size_t length = next_piece(queue_);
  // Without a descriptor of our own, only this much is sure not to block once poll said ready.
  if (!own_.valid()) length = std::min<size_t>(length, PIPE_BUF);
  const ssize_t written =
      broken_ ? static_cast<ssize_t>(queue_.size()) : ::write(fd_, queue_.data(), length);
  if (written >= 0) {
    queue_.erase(0, static_cast<size_t>(written));
    return true;
  }
  if (errno == EINTR || errno == EAGAIN) return false;
  broken_ = true;
  queue_.clear();
  return false;
}

}  // namespace tessera
