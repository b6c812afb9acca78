// The other ranks' side of a rendezvous: finding rank 0, then waiting for everybody.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/rendezvous/rendezvous_frame.h"
#include "launch/rendezvous/socket.h"

namespace tessera {

// Rank 0 said no. Trying again will not help.
class RefusedError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

// A rank that rank 0 has accepted.
struct Acceptance {
  UniqueFd fd;
  std::string place;  // of rank 0, for messages
  Hello hello;
  std::string token;
  std::string challenge;
  std::string bytes;  // received, but not looked at yet
};

// Each shows the other that it knows `token`; the nonce of `hello` is made here. Throws
// RefusedError where rank 0 refuses, and any other Error where nobody is there or it is somebody
// else: then try again.
Acceptance introduce(const std::string& host, int port, const Hello& hello,
                     const std::string& token, Deadline connect_by);

// Everybody's payload. Throws CommError when rank 0 gives up, goes away or says nothing for `time`.
std::vector<std::string> await_table(Acceptance& acceptance, std::chrono::milliseconds time);

}  // namespace tessera
