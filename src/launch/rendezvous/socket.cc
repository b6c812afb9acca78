#include "launch/rendezvous/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr int kBacklog = 1024;

struct FreeAddresses {
  void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;

AddressList resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  require(failure == 0, "the address {} is not known: {}", in_quotes(host),
          ::gai_strerror(failure));
  return AddressList(list);
}

void set_option(int fd, int level, int option, int value) {
  // None of the options used is needed for correctness.
  ::setsockopt(fd, level, option, &value, sizeof(value));
}

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  TESSERA_CHECK(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0,
                "getsockname: {}", std::strerror(errno));
  // The port is at the same place for both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// errno of the failure, or 0.
int listen_at(const UniqueFd& fd, const sockaddr* address, socklen_t length) {
  if (!fd.valid()) return errno;
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(fd.get(), address, length) != 0) return errno;
  return ::listen(fd.get(), kBacklog) == 0 ? 0 : errno;
}

int connect_one(const UniqueFd& fd, const addrinfo& address, Deadline deadline) {
  if (!fd.valid()) return errno;
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_ready(fd.get(), POLLOUT, deadline)) return ETIMEDOUT;
  int failure = 0;
  socklen_t length = sizeof(failure);
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &length) != 0) return errno;
  return failure;
}

std::string numeric(const sockaddr* address, socklen_t length, std::string* port = nullptr) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> service{};
  const int failure = ::getnameinfo(address, length, host.data(), host.size(), service.data(),
                                    service.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  if (port != nullptr) *port = service.data();
  return failure == 0 ? host.data() : "?";
}

}  // namespace

std::string address_text(std::string_view host, int port) {
  const bool colons = host.find(':') != std::string_view::npos;
  return colons ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Listener listen_on(const std::string& host, int port) {
  const AddressList list = resolve(host, port, AI_PASSIVE);
  int failure = 0;
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    UniqueFd fd(::socket(address->ai_family, kSocketFlags, 0));
    failure = listen_at(fd, address->ai_addr, address->ai_addrlen);
    if (failure == 0) {
      const int bound = port_of(fd.get());
      return {.fd = std::move(fd), .port = bound};
    }
  }
  throw Error(
      fmt::format("cannot listen on {}: {}", address_text(host, port), std::strerror(failure)));
}

Listener listen_on_all_addresses() {
  UniqueFd fd(::socket(AF_INET6, kSocketFlags, 0));
  if (fd.valid()) {
    set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    if (listen_at(fd, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0) {
      const int bound = port_of(fd.get());
      return {.fd = std::move(fd), .port = bound};
    }
  }
  return listen_on("0.0.0.0", 0);
}

UniqueFd connect_to(const std::string& host, int port, Deadline deadline) {
  const AddressList list = resolve(host, port, 0);
  int failure = 0;
  for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
    UniqueFd fd(::socket(address->ai_family, kSocketFlags, 0));
    failure = connect_one(fd, *address, deadline);
    if (failure != 0) continue;
    set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
    return fd;
  }
  throw Error(
      fmt::format("cannot connect to {}: {}", address_text(host, port), std::strerror(failure)));
}

UniqueFd accept_from(int listener, std::string& from) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  UniqueFd fd(::accept4(listener, reinterpret_cast<sockaddr*>(&address), &length,
                        SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid()) {
    const bool temporary = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    require(temporary, "cannot accept a connection: {}", std::strerror(errno));
    return fd;
  }
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  std::string port;
  const std::string host = numeric(reinterpret_cast<const sockaddr*>(&address), length, &port);
  from = fmt::format("{} port {}", host, port);
  return fd;
}

bool wait_ready(int fd, short events, Deadline deadline) {
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    const auto time = std::clamp<int64_t>(static_cast<int64_t>(left.count()), 0, 60'000);
    const int ready = ::poll(&entry, 1, static_cast<int>(time));
    if (ready > 0) return true;
    TESSERA_CHECK(ready == 0 || errno == EINTR, "poll: {}", std::strerror(errno));
    if (Clock::now() >= deadline) return false;
  }
}

bool send_all(int fd, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_ready(fd, POLLOUT, deadline)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

Received receive_some(int fd, std::string& bytes) {
  std::array<char, 4096> buffer;
  const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Received::kNothingYet;
  if (got <= 0) return Received::kClosed;
  bytes.append(buffer.data(), static_cast<size_t>(got));
  return Received::kBytes;
}

std::string own_address(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  const int failure = ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  require(failure == 0, "the own address is not known: {}", std::strerror(errno));
  return numeric(reinterpret_cast<const sockaddr*>(&address), length);
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return addresses;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, &::freeifaddrs);
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET) {
      addresses.push_back(numeric(entry->ifa_addr, sizeof(sockaddr_in)));
    } else if (family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      // Link-local addresses mean something only together with an interface of this host.
      if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;
      addresses.push_back(numeric(entry->ifa_addr, sizeof(sockaddr_in6)));
    }
  }
  return addresses;
}

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}

bool is_only_here(const std::string& host) {
  try {
    const AddressList list = resolve(host, 0, 0);
    for (const addrinfo* address = list.get(); address != nullptr; address = address->ai_next) {
      if (!is_loopback(numeric(address->ai_addr, address->ai_addrlen))) return false;
    }
    return true;
  } catch (const Error&) {
    return true;
  }
}

}  // namespace tessera
