// Where a command listens, and the links to it.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

// The name of this machine.
std::string host_name();

// Whether only programs of this machine reach what listens on `host`.
bool is_loopback(const std::string& host);

// Throws ConfigError for a port that is none.
void check_port(int64_t port);

// As sockets take it: "localhost" as an address.
std::string listen_address(const std::string& host);

// "http://127.0.0.1:8000", without a path; of an address that means all of this machine's, with
// the machine's name.
std::string link_to(const std::string& host, uint16_t port);

}  // namespace tessera
