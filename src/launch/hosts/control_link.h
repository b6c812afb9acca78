// One end of a connection over which control frames go. Nothing waits unless a deadline is given.
// Reads no byte beyond the frame at hand: what follows may be for somebody else. Not thread-safe.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "launch/hosts/control_frame.h"
#include "launch/rendezvous/socket.h"
#include "launch/unique_fd.h"

namespace tessera {

class ControlLink {
 public:
  // `is_host`: of whoever listens; the other one is the guest.
  ControlLink(UniqueFd fd, std::string from, bool is_host);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool open() const { return fd_.valid(); }
  [[nodiscard]] const std::string& from() const { return from_; }
  // Every frame is sealed from now on, and may be longer.
  void use_key(std::string key);
  void close() { fd_.reset(); }
  UniqueFd release() { return std::move(fd_); }

  // Queues it and sends what the system takes. A peer that takes nothing is cut off.
  void send(const ControlFrame& frame);
  [[nodiscard]] bool has_output() const { return fd_.valid() && !out_.empty(); }
  void send_some();

  // The next frame, if it is there. Throws Error for anything that is none; then, and when the peer
  // closes, the link is closed.
  std::optional<ControlFrame> take();
  // Waits for it. Throws Error where it does not come.
  ControlFrame await(Deadline deadline);

 private:
  UniqueFd fd_;
  std::string from_;
  Seal mine_;
  Seal theirs_;
  size_t max_body_ = kMaxGreetingBytes;
  std::string in_;
  std::string out_;
};

}  // namespace tessera
