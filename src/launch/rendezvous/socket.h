// TCP sockets whose every wait is bounded.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/unique_fd.h"

namespace tessera {

using Deadline = std::chrono::steady_clock::time_point;

// "10.0.0.5:29500", "[fe80::1]:29500"
std::string address_text(std::string_view host, int port);

// All descriptors are close-on-exec and do not block. Each throws Error with the reason.
struct Listener {
  UniqueFd fd;
  int port = 0;
};
Listener listen_on(const std::string& host, int port);  // port 0: the system chooses
Listener listen_on_all_addresses();
UniqueFd connect_to(const std::string& host, int port, Deadline deadline);

// Null descriptor: nobody is waiting. `from` gets the address of the peer.
UniqueFd accept_from(int listener, std::string& from);

// Whether the descriptor became ready (events of poll) before the deadline.
bool wait_ready(int fd, short events, Deadline deadline);

// False when the peer is gone or too slow.
bool send_all(int fd, std::string_view bytes, Deadline deadline);

enum class Received { kBytes, kNothingYet, kClosed };
// What is there now, at most 4 KiB, appended to `bytes`.
Received receive_some(int fd, std::string& bytes);

// The numeric address of this end of a connection.
std::string own_address(int fd);

// Numeric addresses of this host's interfaces, loopback included.
std::vector<std::string> own_addresses();
bool is_loopback(std::string_view address);
// Whether all addresses of `host` are loopback. Nobody reaches a name that is not known.
bool is_only_here(const std::string& host);

}  // namespace tessera
