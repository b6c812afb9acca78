// One connection of the server, from its first request to its end. Everything of it runs on the
// thread of the sockets, but handlers and event sources, which run on the workers where they may
// take a while. It lives as long as something of it is under way. Included by server.cc and
// connection.cc alone: it reads Boost.
#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "http/server.h"

namespace tessera::http {

// What one that is refused is told.
Response too_many_connections(const ServerOptions& options);

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // What outlives every connection.
  struct Shared {
    const ServerOptions& options;
    const Handler& handler;
    boost::asio::thread_pool& workers;
    boost::asio::thread_pool& slow_workers;
    std::function<void()> on_end;
  };

  // `is_spare`: one beyond ServerOptions::most_connections, for a request that is answered at once.
  Connection(boost::asio::ip::tcp::socket socket, const Shared& shared, bool is_spare);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start() { read_request(); }
  void refuse(const Response& response);  // instead of start()
  // Ends at once what is only waiting; a request at hand is still answered.
  void stop();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Failure = boost::beast::error_code;

  void read_request();
  void on_header(Failure failure);
  [[nodiscard]] bool is_at_once() const;
  void read_body();
  void on_request(Failure failure);
  void refuse_unread(Failure failure);
  void handle(Request request);
  void respond(Response response);
  void on_response(Failure failure);
  void close();

  void await_response(std::shared_ptr<LaterResponse> later);
  void watch_for_leaving();
  void on_read_ahead(Failure failure, size_t bytes);
  void on_known(Response response);
  void start_events();
  void watch_for_end();
  void ask_source();
  [[nodiscard]] EventPart next_part();
  void on_part(EventPart part);
  void wait_for_news();
  void write_part();

  Shared shared_;
  const bool is_spare_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  uint16_t port_ = 0;
  bool keep_alive_ = false;
  bool only_head_ = false;
  bool stopping_ = false;
  bool waiting_ = false;     // for a request, or for news
  std::string head_, body_;  // being written
  // A response that comes later: what the client sends meanwhile is kept for its next request.
  std::shared_ptr<LaterResponse> later_;
  std::optional<Response> known_;
  bool reading_ahead_ = false;
  // A stream of events.
  std::shared_ptr<EventSource> events_;
  boost::asio::steady_timer poll_;
  std::chrono::steady_clock::time_point last_write_;
  bool asking_ = false;  // the source is at work, or its text is being written
  bool woken_ = false;   // meanwhile it had news
  bool ended_ = false;
  std::array<char, 256> ignored_{};
};

}  // namespace tessera::http
