#include "text/line_source.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "cli/interrupt.h"

namespace tessera {
namespace {

constexpr int kLookMs = 50;  // at a signal
constexpr size_t kMostBytes = size_t{1} << 20;

}  // namespace

LineSource::Read TypedLines::next(const std::string& prompt) {
  const auto show = [&] {
    if (is_terminal_) console_.err << prompt << std::flush;
  };
  // The second ^C ends the program, as a signal does.
  const InterruptGuard interrupt;
  bool asked = false;
  show();
  Read read;
  while (!take(read)) {
    if (interrupt.interrupted() && (!is_terminal_ || interrupt.signal() != SIGINT)) {
      return {.is_end = true, .signal = interrupt.signal(), .line = ""};
    }
    if (interrupt.interrupted() && !asked) {
      asked = true;
      console_.err << "\n(^C again ends, as ^D and /quit do)\n";
      show();
    }
    pollfd wanted = {.fd = file_, .events = POLLIN, .revents = 0};
    if (::poll(&wanted, 1, kLookMs) <= 0) continue;
    if (!fill()) at_end_ = true;
  }
  if (read.is_end && is_terminal_) console_.err << '\n';
  return read;
}

bool TypedLines::take(Read& read) {
  const size_t end = typed_.find('\n');
  if (end == std::string::npos && !at_end_) return false;
  if (end == std::string::npos && typed_.empty()) {
    read.is_end = true;
    return true;
  }
  read.line = typed_.substr(0, end);
  typed_.erase(0, end == std::string::npos ? end : end + 1);
  if (!read.line.empty() && read.line.back() == '\r') read.line.pop_back();
  return true;
}

bool TypedLines::fill() {
  std::array<char, 4096> bytes{};
  const ssize_t count = ::read(file_, bytes.data(), bytes.size());
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  require(count >= 0, "cannot read what is typed: {}", std::strerror(errno));
  typed_.append(bytes.data(), static_cast<size_t>(count));
  require(typed_.size() <= kMostBytes, "a line of more than {} bytes was typed: send less at once",
          kMostBytes);
  return count > 0;
}

}  // namespace tessera
