// One request and its response on a connection. Everything happens on the thread that runs the
// executor.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

// What a connection is made of; it outlives the requests on it.
struct ServeConnection {
  explicit ServeConnection(const boost::asio::any_io_executor& executor) : stream(executor) {}
  boost::beast::tcp_stream stream;
  boost::beast::flat_buffer buffer;
  bool used = false;  // has had a response
};

class ServeExchange : public std::enable_shared_from_this<ServeExchange> {
 public:
  using Message = boost::beast::http::request<boost::beast::http::string_body>;
  using Endpoints = boost::asio::ip::tcp::resolver::results_type;
  using Clock = std::chrono::steady_clock;

  struct Handlers {
    std::function<void(int status)> on_head;
    std::function<void(std::string_view part)> on_body;
    // `failure`: empty where the response came whole. `reusable`: the connection, where it takes
    // another request.
    std::function<void(const std::string& failure, std::shared_ptr<ServeConnection> reusable)>
        on_end;
  };

  ServeExchange(std::shared_ptr<ServeConnection> connection, Message message, Handlers handlers)
      : connection_(std::move(connection)),
        message_(std::move(message)),
        handlers_(std::move(handlers)) {}

  // All of it by `deadline`. Connects where the connection is new.
  void start(const Endpoints& endpoints, Clock::time_point deadline);

 private:
  using Failure = boost::beast::error_code;

  void connect();
  void write();
  void read_head();
  void read_body();
  void on_body(Failure failure);
  void fail(const char* where, Failure failure);
  void end(const std::string& failure, bool reusable);
  // A server may give up a connection while it is idle; nothing was lost then.
  bool begin_again();

  std::shared_ptr<ServeConnection> connection_;
  Message message_;
  Handlers handlers_;
  const Endpoints* endpoints_ = nullptr;
  Clock::time_point deadline_;
  std::optional<boost::beast::http::response_parser<boost::beast::http::buffer_body>> parser_;
  std::array<char, 16384> part_{};
};

}  // namespace tessera
