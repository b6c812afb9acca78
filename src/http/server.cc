#include "http/server.h"

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <thread>
#include <unordered_map>
#include <utility>

#include "http/connection.h"

namespace tessera::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, Handler handler);
  ~Impl();

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] int connections() const { return open_.load(); }

 private:
  void listen();
  void accept();
  void on_accept(boost::system::error_code failure, tcp::socket socket);
  void stop();

  const ServerOptions options_;
  const Handler handler_;
  // What connections use at their end, which may come with that of the two below.
  std::atomic<int> open_{0};
  std::unordered_map<uint64_t, std::weak_ptr<Connection>> live_;
  asio::io_context io_{1};
  // Also while only a worker has something to do.
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  asio::thread_pool workers_;
  asio::thread_pool slow_workers_;
  tcp::acceptor acceptor_{io_};
  asio::steady_timer pause_{io_};
  uint16_t port_ = 0;
  uint64_t next_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

Server::Impl::Impl(const ServerOptions& options, Handler handler)
    : options_(options),
      handler_(std::move(handler)),
      workers_(static_cast<size_t>(options.workers)),
      slow_workers_(static_cast<size_t>(options.is_slow == nullptr ? 0 : options.slow_workers)) {
  listen();
  accept();
  thread_ = std::thread([this] { io_.run(); });
}

void Server::Impl::listen() {
  boost::system::error_code failure;
  const auto address = asio::ip::make_address(options_.address, failure);
  require_config(!failure, "'{}' is no IP address to listen on, such as 127.0.0.1 or 0.0.0.0",
                 options_.address);
  const tcp::endpoint endpoint(address, options_.port);
  acceptor_.open(endpoint.protocol(), failure);
  if (!failure) acceptor_.set_option(tcp::acceptor::reuse_address(true), failure);
  if (!failure) acceptor_.bind(endpoint, failure);
  if (!failure) acceptor_.listen(asio::socket_base::max_listen_connections, failure);
  require(!failure, "cannot listen on {}, port {}: {}", options_.address, options_.port,
          failure.message());
  port_ = acceptor_.local_endpoint().port();
}

void Server::Impl::accept() {
  acceptor_.async_accept([this](boost::system::error_code failure, tcp::socket socket) {
    on_accept(failure, std::move(socket));
  });
}

void Server::Impl::on_accept(boost::system::error_code failure, tcp::socket socket) {
  if (stopping_) return;
  if (failure) {  // as when the process has no descriptor left: some will be given back
    pause_.expires_after(kAcceptPause);
    return pause_.async_wait([this](boost::system::error_code) {
      if (!stopping_) accept();
    });
  }
  const uint64_t id = next_++;
  const int open = ++open_;
  const auto on_end = [this, id] {
    --open_;
    live_.erase(id);
  };
  const auto connection = std::make_shared<Connection>(
      std::move(socket), Connection::Shared{options_, handler_, workers_, slow_workers_, on_end},
      /*is_spare=*/open > options_.most_connections);
  live_[id] = connection;
  if (open > options_.most_connections + options_.spare_connections) {
    connection->refuse(too_many_connections(options_));
  } else {
    connection->start();
  }
  accept();
}

void Server::Impl::stop() {
  stopping_ = true;
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  std::vector<std::shared_ptr<Connection>> connections;
  for (const auto& [id, weak] : live_) {
    if (auto connection = weak.lock()) connections.push_back(std::move(connection));
  }
  for (const auto& connection : connections) connection->stop();
}

Server::Impl::~Impl() {
  asio::post(io_, [this] { stop(); });
  const auto deadline = std::chrono::steady_clock::now() + kStopGrace;
  while (open_.load() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (asio::thread_pool* pool : {&workers_, &slow_workers_}) {
    pool->stop();
    pool->join();
  }
  io_.stop();
  thread_.join();
}

Server::Server(const ServerOptions& options, Handler handler)
    : impl_(std::make_unique<Impl>(options, std::move(handler))) {}
Server::~Server() = default;
uint16_t Server::port() const { return impl_->port(); }
int Server::connections() const { return impl_->connections(); }

}  // namespace tessera::http
