#include "launch/hosts/control_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

constexpr size_t kMaxUnsent = size_t{4} << 20;

}  // namespace

ControlLink::ControlLink(UniqueFd fd, std::string from, bool is_host)
    : fd_(std::move(fd)), from_(std::move(from)) {
  mine_.from_host = is_host;
  theirs_.from_host = !is_host;
}

void ControlLink::use_key(std::string key) {
  mine_.key = key;
  theirs_.key = std::move(key);
  max_body_ = kMaxControlBodyBytes;
}

void ControlLink::send(const ControlFrame& frame) {
  if (!fd_.valid()) return;
  out_ += to_bytes(frame, mine_);
  ++mine_.number;
  send_some();
  if (out_.size() > kMaxUnsent) close();
}

void ControlLink::send_some() {
  while (fd_.valid() && !out_.empty()) {
    const ssize_t sent = ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;  // not now, or the peer has gone, which reading tells
    out_.erase(0, static_cast<size_t>(sent));
  }
}

std::optional<ControlFrame> ControlLink::take() {
  try {
    while (fd_.valid()) {
      const size_t missing = bytes_missing(in_, max_body_);
      if (missing == 0) {
        ControlFrame frame = parse_control(in_, theirs_);
        ++theirs_.number;
        in_.clear();
        return frame;
      }
      std::array<char, 4096> buffer;
      const ssize_t got =
          ::recv(fd_.get(), buffer.data(), std::min(missing, buffer.size()), MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return std::nullopt;
      if (got <= 0) {
        close();
        return std::nullopt;
      }
      in_.append(buffer.data(), static_cast<size_t>(got));
    }
    return std::nullopt;
  } catch (const Error&) {
    close();
    throw;
  }
}

ControlFrame ControlLink::await(Deadline deadline) {
  while (true) {
    if (std::optional<ControlFrame> frame = take()) return *frame;
    require(open(), "{} has closed the connection", from_);
    const short events = static_cast<short>(POLLIN | (has_output() ? POLLOUT : 0));
    require(wait_ready(fd(), events, deadline), "{} does not answer", from_);
    send_some();
  }
}

}  // namespace tessera
