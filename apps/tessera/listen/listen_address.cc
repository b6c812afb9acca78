#include "listen/listen_address.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int64_t kMostPort = 65535;

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

bool is_loopback(const std::string& host) {
  return host == "127.0.0.1" || host == "::1" || host == "localhost";
}

void check_port(int64_t port) {
  require_config(port <= kMostPort, "--port is {}: ports end at {}", port, kMostPort);
}

std::string listen_address(const std::string& host) {
  return host == "localhost" ? "127.0.0.1" : host;
}

std::string link_to(const std::string& host, uint16_t port) {
  const bool everywhere = host == "0.0.0.0" || host == "::";
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}", everywhere ? host_name() : v6 ? "[" + host + "]" : host, port);
}

}  // namespace tessera
