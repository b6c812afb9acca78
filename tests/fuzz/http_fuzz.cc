// The stream of bytes that comes to a connection of the HTTP server. The first byte says in which
// pieces, and whether the client closes its side. No port and no thread: the connection has one end
// of a pair of sockets, and everything of it runs here.
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "fuzz_target.h"
#include "http/access.h"
#include "http/connection.h"
#include "http/testing/response_row.h"
#include "launch/unique_fd.h"

namespace {

using namespace tessera;
using namespace tessera::http;

constexpr size_t kMostBytes = 4096;  // of a header, and of a body

class ShortStream : public EventSource {
 public:
  EventPart next() override {
    return {.text = format_event("1", "step", "a\nb"), .ended = ++parts_ == 3};
  }
  [[nodiscard]] bool is_quick() const override { return true; }

 private:
  int parts_ = 0;
};

// Nothing that it says begins like a response.
Router routes() {
  Router router;
  router.get("/", [](const Request& request) {
    return Response::text(200, "text/plain", accepts_gzip(request) ? "gzip" : "plain");
  });
  router.get("/later", [](const Request&) {
    Response response;
    response.later = std::make_shared<LaterResponse>();
    response.later->give(Response::text(200, "text/plain", "it came"));
    return response;
  });
  router.get("/api/runs/{id}/events", [](const Request&) {
    Response response;
    response.fields.emplace_back("Content-Type", "text/event-stream");
    response.events = std::make_shared<ShortStream>();
    return response;
  });
  router.add("POST", "/count", [](const Request& request) {
    fuzz::expect(request.body.size() <= kMostBytes);
    return Response::text(200, "text/plain", std::to_string(request.body.size()));
  });
  return router;
}

Response answer(const Request& request) {
  static const Router kRouter = routes();
  static const AccessRules kRules{
      .loopback_only = true, .token = "0123456789abcdef", .cookie_name = "studio"};
  AccessRules rules = kRules;
  if (request.method == "POST") rules.token.clear();
  if (auto refusal = refusal_of(request, rules)) return *std::move(refusal);
  return kRouter.route(request);
}

class Client {
 public:
  Client(boost::asio::io_context& io, int socket) : io_(io), socket_(socket) {}

  void send(const uint8_t* data, size_t size) {
    while (size > 0) {
      const ssize_t sent = ::send(socket_.get(), data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) return;
      data += sent;
      size -= static_cast<size_t>(sent);
      turn();
    }
  }
  void end_sending() {
    ::shutdown(socket_.get(), SHUT_WR);
    turn();
  }
  void leave() {
    socket_ = UniqueFd();
    turn();
  }
  // What can be done without waiting is done.
  void turn() {
    char got[4096];
    do {
      io_.restart();
      while (io_.poll() > 0) {
      }
      const ssize_t count = ::recv(socket_.get(), got, sizeof(got), MSG_DONTWAIT);
      if (count <= 0) return;
      read_.append(got, static_cast<size_t>(count));
    } while (true);
  }
  [[nodiscard]] const std::string& read() const { return read_; }

 private:
  boost::asio::io_context& io_;
  UniqueFd socket_;
  std::string read_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return 0;
  static boost::asio::thread_pool kNoWorkers(0);
  static const Handler kHandler = answer;
  ServerOptions options;
  options.header_bytes = options.body_bytes = kMostBytes;
  options.at_once = [](const Request&) { return true; };
  bool over = false;
  boost::asio::io_context io(1);
  Client client(io, ends[1]);
  {
    boost::asio::ip::tcp::socket socket(io, boost::asio::ip::tcp::v4(), ends[0]);
    const bool is_spare = data[0] % 16 == 15;
    std::make_shared<Connection>(
        std::move(socket),
        Connection::Shared{options, kHandler, kNoWorkers, kNoWorkers, [&over] { over = true; }},
        is_spare)
        ->start();
  }
  const size_t piece = data[0] % 16 == 0 ? size : size_t{1} + data[0] % 16 * 23;
  for (size_t at = 1; at < size; at += piece) client.send(data + at, std::min(piece, size - at));
  client.turn();
  if (data[0] >= 128) client.end_sending();
  fuzz::expect(is_row_of_responses(client.read()));
  client.leave();
  fuzz::expect(over);
  return 0;
}
