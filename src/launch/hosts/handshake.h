// How two ends of a connection show each other that they know the token of the run, which itself
// does not travel: each makes up a random text, and proves with an HMAC over both that it has the
// token. What was overheard once is of no use for another connection.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "launch/hosts/control_link.h"

namespace tessera {

// The other side refuses: for good, or until something has changed.
class LinkRefused : public std::runtime_error {
 public:
  LinkRefused(const std::string& reason, bool for_good)
      : std::runtime_error(reason), for_good_(for_good) {}
  [[nodiscard]] bool for_good() const { return for_good_; }

 private:
  bool for_good_;
};

// The side that listens. Its link is the visitor's.
class HostHandshake {
 public:
  explicit HostHandshake(std::string token) : token_(std::move(token)) {}

  // What a visitor says next. The greeting, once it has proved to know the token: then it is to be
  // welcomed or refused. Throws Error for what cannot be; a wrong proof is refused here.
  std::optional<ControlFrame> take(ControlLink& link, const ControlFrame& frame);

 private:
  std::string token_;
  std::optional<ControlFrame> greeting_;
  std::string guest_text_;
  std::string host_text_;
  friend void welcome(ControlLink& link, const HostHandshake& handshake, const ControlFrame& frame);
};

// `frame`: run, generation and a body for the visitor. The link is sealed from then on.
void welcome(ControlLink& link, const HostHandshake& handshake, const ControlFrame& frame);
void refuse(ControlLink& link, const std::string& reason, bool for_good);

// The side that comes: returns the host's welcome. Throws LinkRefused; Error where it cannot be
// reached or does not know the token.
ControlFrame introduce(ControlLink& link, const std::string& token, const ControlFrame& greeting,
                       Deadline deadline);

}  // namespace tessera
