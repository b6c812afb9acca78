#include "bench/bench_serve_exchange.h"

#include <fmt/format.h>

#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <utility>

namespace tessera {
namespace {

namespace beast = boost::beast;

constexpr std::uint32_t kMostHeaderBytes = 64 << 10;
constexpr std::uint64_t kMostBodyBytes = std::uint64_t{256} << 20;

}  // namespace

void ServeExchange::start(const Endpoints& endpoints, Clock::time_point deadline) {
  endpoints_ = &endpoints;
  deadline_ = deadline;
  connection_->stream.expires_at(deadline_);
  if (connection_->used) return write();
  connect();
}

void ServeExchange::connect() {
  connection_->stream.async_connect(*endpoints_, [self = shared_from_this()](
                                                     Failure failure, const auto& /*endpoint*/) {
    if (failure) return self->fail("connect", failure);
    Failure ignored;
    self->connection_->stream.socket().set_option(boost::asio::ip::tcp::no_delay(true), ignored);
    self->write();
  });
}

void ServeExchange::write() {
  beast::http::async_write(connection_->stream, message_,
                           [self = shared_from_this()](Failure failure, size_t) {
                             if (failure && self->begin_again()) return;
                             // A server that refuses may not read all: its answer says why.
                             self->read_head();
                           });
}

void ServeExchange::read_head() {
  parser_.emplace();
  parser_->header_limit(kMostHeaderBytes);
  parser_->body_limit(kMostBodyBytes);
  beast::http::async_read_header(
      connection_->stream, connection_->buffer, *parser_,
      [self = shared_from_this()](Failure failure, size_t bytes) {
        if (failure && bytes == 0 && failure != beast::error::timeout && self->begin_again()) {
          return;
        }
        if (failure) return self->fail("no response", failure);
        self->connection_->used = true;
        self->handlers_.on_head(static_cast<int>(self->parser_->get().result_int()));
        self->read_body();
      });
}

void ServeExchange::read_body() {
  if (parser_->is_done()) return end("", parser_->keep_alive());
  parser_->get().body().data = part_.data();
  parser_->get().body().size = part_.size();
  beast::http::async_read_some(
      connection_->stream, connection_->buffer, *parser_,
      [self = shared_from_this()](Failure failure, size_t) { self->on_body(failure); });
}

void ServeExchange::on_body(Failure failure) {
  const size_t came = part_.size() - parser_->get().body().size;
  if (came > 0) handlers_.on_body(std::string_view(part_.data(), came));
  // The part is full, that is all.
  if (failure == beast::http::error::need_buffer) failure = {};
  if (failure) return fail("broken response", failure);
  read_body();
}

bool ServeExchange::begin_again() {
  if (!connection_->used) return false;
  connection_ = std::make_shared<ServeConnection>(connection_->stream.get_executor());
  connection_->stream.expires_at(deadline_);
  connect();
  return true;
}

void ServeExchange::fail(const char* where, Failure failure) {
  end(failure == beast::error::timeout ? "timeout"
                                       : fmt::format("{}: {}", where, failure.message()),
      false);
}

void ServeExchange::end(const std::string& failure, bool reusable) {
  if (reusable) connection_->stream.expires_never();
  const auto handlers = std::exchange(handlers_, {});
  if (handlers.on_end) handlers.on_end(failure, reusable ? connection_ : nullptr);
}

}  // namespace tessera
