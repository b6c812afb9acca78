#include "http/testing/client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <utility>

namespace tessera::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

}  // namespace

TestClient::TestClient(uint16_t port, int receive_bytes)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_bytes > 0) {
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    ended_ = true;
  }
}

TestClient::~TestClient() { ::close(socket_); }

bool TestClient::send(std::string_view bytes) {
  const auto deadline = steady_clock::now() + kTestPatience;
  while (!bytes.empty() && steady_clock::now() < deadline) {
    pollfd ready{socket_, POLLOUT, 0};
    if (::poll(&ready, 1, 100) == 0) continue;
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return bytes.empty();
}

void TestClient::end_sending() { ::shutdown(socket_, SHUT_WR); }

std::string TestClient::read_until(const std::function<bool(std::string_view)>& enough,
                                   milliseconds patience) {
  const auto deadline = steady_clock::now() + patience;
  while (!ended_ && !enough(unread_) && steady_clock::now() < deadline) {
    pollfd ready{socket_, POLLIN, 0};
    if (::poll(&ready, 1, 20) == 0) continue;
    std::array<char, 65536> bytes{};
    const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got <= 0) {
      ended_ = true;
    } else {
      unread_.append(bytes.data(), static_cast<size_t>(got));
    }
  }
  return std::exchange(unread_, {});
}

std::string TestClient::read_to_end(milliseconds patience) {
  return read_until([](std::string_view) { return false; }, patience);
}

std::string TestResponse::field(std::string_view name) const {
  const std::string start = fmt::format("\r\n{}: ", name);
  const size_t at = head.find(start);
  if (at == std::string::npos) return "";
  const size_t begin = at + start.size();
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

TestResponse parse_response(const std::string& bytes) {
  TestResponse response;
  const size_t end = bytes.find("\r\n\r\n");
  if (end == std::string::npos || !bytes.starts_with("HTTP/1.1 ")) return response;
  response.head = bytes.substr(0, end + 2);
  response.body = bytes.substr(end + 4);
  response.status = std::stoi(bytes.substr(9, 3));
  return response;
}

TestResponse fetch(uint16_t port, const std::string& target, const std::string& fields,
                   const std::string& method) {
  TestClient client(port);
  client.send(fmt::format("{} {} HTTP/1.1\r\nHost: localhost:{}\r\n{}Connection: close\r\n\r\n",
                          method, target, port, fields));
  return parse_response(client.read_to_end());
}

TestEvents::TestEvents(uint16_t port, const std::string& target, const std::string& last_id)
    : client_(port), last_id_(last_id) {
  const std::string resume = last_id.empty() ? "" : "Last-Event-ID: " + last_id + "\r\n";
  client_.send(
      fmt::format("GET {} HTTP/1.1\r\nHost: localhost:{}\r\n{}\r\n", target, port, resume));
}

bool TestEvents::next(Event& event, milliseconds patience) {
  const auto deadline = steady_clock::now() + patience;
  while (true) {
    const size_t end = text_.find(past_head_ ? "\n\n" : "\r\n\r\n");
    if (end == std::string::npos) {
      if (client_.ended() || steady_clock::now() >= deadline) return false;
      text_ += client_.read_until([](std::string_view bytes) { return !bytes.empty(); },
                                  milliseconds(50));
      continue;
    }
    const std::string part = text_.substr(0, end + 1);
    text_.erase(0, end + (past_head_ ? 2 : 4));
    if (!std::exchange(past_head_, true)) continue;
    event = {};
    for (size_t at = 0; at < part.size();) {
      const size_t newline = part.find('\n', at);
      const std::string line = part.substr(at, newline - at);
      at = newline + 1;
      if (line == "id") last_id_.clear();
      if (line.starts_with("id: ")) event.id = last_id_ = line.substr(4);
      if (line.starts_with("event: ")) event.name = line.substr(7);
      if (line.starts_with("data: "))
        event.data += (event.data.empty() ? "" : "\n") + line.substr(6);
    }
    if (!event.data.empty() || !event.name.empty()) return true;
  }
}

}  // namespace tessera::http
