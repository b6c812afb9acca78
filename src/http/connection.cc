#include "http/connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

namespace tessera::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using std::chrono::steady_clock;

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// So much of a next request is read before the response to the last one.
constexpr size_t kReadAhead = 4096;
// A spare connection is given back soon.
constexpr std::chrono::milliseconds kSpareTime{2'000};

std::string text_of(boost::string_view text) { return {text.data(), text.size()}; }

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// Nothing where the target is none.
std::optional<Request> request_of(beast::http::request<beast::http::string_body>& message) {
  auto target = parse_target(text_of(message.target()));
  if (!target.has_value()) return std::nullopt;
  Request request;
  request.method = text_of(message.method_string());
  request.segments = std::move(target->segments);
  request.query = std::move(target->query);
  for (const auto& field : message) {
    request.fields.emplace_back(lower_case(text_of(field.name_string())), text_of(field.value()));
  }
  request.body = std::move(message.body());
  return request;
}

// What the client is told of a request that could not be read; nothing where nobody listens.
std::optional<Response> response_to(beast::error_code failure, WriteError write_error) {
  using beast::http::error;
  if (failure == error::end_of_stream || failure == error::partial_message) return std::nullopt;
  if (failure == error::header_limit || failure == error::buffer_overflow) {
    return write_error(431, "too_large", "the request's header fields are too large");
  }
  if (failure == error::body_limit) {
    return write_error(413, "too_large", "the request's body is too large");
  }
  if (failure.category() == make_error_code(error::bad_version).category()) {
    return write_error(400, "bad_request", "this is no HTTP/1.1 request: " + failure.message());
  }
  return std::nullopt;
}

}  // namespace

Response too_many_connections(const ServerOptions& options) {
  return options.write_error(503, "unavailable",
                             "too many connections are open: close some, or try again");
}

Connection::Connection(asio::ip::tcp::socket socket, const Shared& shared, bool is_spare)
    : shared_(shared),
      is_spare_(is_spare),
      stream_(std::move(socket)),
      poll_(stream_.get_executor()) {
  beast::error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  port_ = stream_.socket().local_endpoint(ignored).port();
}

Connection::~Connection() {
  if (events_) events_->wake_with({});
  if (later_) later_->take_with({});
  shared_.on_end();
}

void Connection::refuse(const Response& response) {
  keep_alive_ = false;
  respond(response);
}

void Connection::stop() {
  stopping_ = true;
  if (waiting_ || events_) close();
}

void Connection::close() {
  ended_ = true;
  poll_.cancel();
  beast::error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
}

void Connection::read_request() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(shared_.options.header_bytes));
  parser_->body_limit(shared_.options.body_bytes);
  waiting_ = true;
  const ServerOptions& options = shared_.options;
  stream_.expires_after(is_spare_ ? std::min(options.read_timeout, kSpareTime)
                                  : options.read_timeout);
  beast::http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](Failure failure, size_t) { self->on_header(failure); });
}

void Connection::on_header(Failure failure) {
  waiting_ = false;
  if (failure) return refuse_unread(failure);
  if (is_spare_ && !is_at_once()) return refuse(too_many_connections(shared_.options));
  const auto expect = parser_->get().find(beast::http::field::expect);
  const bool asks =
      expect != parser_->get().end() && lower_case(text_of(expect->value())) == "100-continue";
  if (!asks || parser_->is_done()) return read_body();
  stream_.expires_after(shared_.options.write_timeout);
  asio::async_write(stream_, asio::buffer(kContinue),
                    [self = shared_from_this()](Failure broken, size_t) {
                      if (broken) return self->close();
                      self->stream_.expires_after(self->shared_.options.read_timeout);
                      self->read_body();
                    });
}

// As its header says, before its body is read.
bool Connection::is_at_once() const {
  const auto at_once = shared_.options.at_once;
  const auto target = parse_target(text_of(parser_->get().target()));
  if (at_once == nullptr || !target.has_value()) return false;
  Request request;
  request.segments = target->segments;
  return at_once(request);
}

void Connection::read_body() {
  beast::http::async_read(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](Failure failure, size_t) { self->on_request(failure); });
}

void Connection::on_request(Failure failure) {
  if (failure) return refuse_unread(failure);
  auto message = parser_->release();
  keep_alive_ = message.keep_alive() && message.version() == 11 && !is_spare_;
  only_head_ = message.method() == beast::http::verb::head;
  auto request = request_of(message);
  if (request.has_value()) {
    request->port = port_;
    return handle(std::move(*request));
  }
  respond(shared_.options.write_error(400, "bad_request",
                                      "the request's target is no path of this server"));
}

void Connection::refuse_unread(Failure failure) {
  const auto response = response_to(failure, shared_.options.write_error);
  if (!response.has_value() || stopping_ || !stream_.socket().is_open()) return close();
  refuse(*response);
}

void Connection::handle(Request request) {
  const auto at_once = shared_.options.at_once;
  if (at_once != nullptr && at_once(request)) return respond(shared_.handler(request));
  const auto is_slow = shared_.options.is_slow;
  auto& workers = is_slow != nullptr && is_slow(request) ? shared_.slow_workers : shared_.workers;
  asio::post(workers, [self = shared_from_this(), asked = std::move(request)]() mutable {
    Response response = self->shared_.handler(asked);
    // The connection goes back whole: its end must not come on this thread.
    const auto executor = self->stream_.get_executor();
    asio::post(executor, [at = std::move(self), answer = std::move(response)]() mutable {
      at->respond(std::move(answer));
    });
  });
}

void Connection::respond(Response response) {
  if (response.later != nullptr) return await_response(std::move(response.later));
  for (const auto& field : shared_.options.fields) response.fields.push_back(field);
  const bool streams = response.events != nullptr;
  // A stream ends with its connection, which every client understands.
  keep_alive_ = keep_alive_ && !streams && !stopping_;
  const bool bodiless = response.status == 204 || response.status == 304;
  const auto length = streams || bodiless ? std::nullopt : std::optional(response.body.size());
  head_ = head_of(response, length, keep_alive_);
  body_ = only_head_ || streams || bodiless ? std::string() : std::move(response.body);
  if (streams && !only_head_) events_ = std::move(response.events);
  stream_.expires_after(shared_.options.write_timeout);
  const std::array<asio::const_buffer, 2> buffers = {asio::buffer(head_), asio::buffer(body_)};
  asio::async_write(stream_, buffers, [self = shared_from_this()](Failure failure, size_t) {
    self->on_response(failure);
  });
}

void Connection::on_response(Failure failure) {
  if (failure || stopping_) return close();
  if (events_) return start_events();
  if (keep_alive_) return read_request();
  // What the client still sends would make the system discard the response: it is told first.
  beast::error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  waiting_ = true;
  watch_for_end();
}

// Costs no thread. Meanwhile a client that leaves is noticed, and told to whoever works for it.
void Connection::await_response(std::shared_ptr<LaterResponse> later) {
  later_ = std::move(later);
  stream_.expires_never();
  watch_for_leaving();
  later_->take_with([weak = weak_from_this(), executor = stream_.get_executor()](Response known) {
    asio::post(executor, [weak, answer = std::move(known)]() mutable {
      if (const auto self = weak.lock()) self->on_known(std::move(answer));
    });
  });
}

void Connection::watch_for_leaving() {
  reading_ahead_ = true;
  stream_.async_read_some(buffer_.prepare(kReadAhead),
                          [self = shared_from_this()](Failure failure, size_t bytes) {
                            self->on_read_ahead(failure, bytes);
                          });
}

void Connection::on_read_ahead(Failure failure, size_t bytes) {
  reading_ahead_ = false;
  buffer_.commit(bytes);
  if (known_.has_value()) {
    later_.reset();
    respond(*std::exchange(known_, std::nullopt));
  } else if (failure || buffer_.size() > shared_.options.header_bytes) {
    close();  // who sends on and on without waiting for an answer is dropped as well
  } else {
    watch_for_leaving();
  }
}

void Connection::on_known(Response response) {
  if (ended_) return;
  known_ = std::move(response);
  // One read at a time: the one that watches ends first.
  if (reading_ahead_) stream_.cancel();
}

// Reads and forgets until the client ends the connection or its time is over.
void Connection::watch_for_end() {
  stream_.async_read_some(asio::buffer(ignored_),
                          [self = shared_from_this()](Failure failure, size_t) {
                            if (failure) return self->close();
                            self->watch_for_end();
                          });
}

void Connection::start_events() {
  if (shared_.options.event_buffer_bytes > 0) {
    beast::error_code ignored;
    stream_.socket().set_option(
        asio::socket_base::send_buffer_size(shared_.options.event_buffer_bytes), ignored);
  }
  // A reader says nothing, for as long as it likes; only writes have a limit from here on.
  stream_.expires_never();
  watch_for_end();
  last_write_ = steady_clock::now();
  events_->wake_with([weak = weak_from_this(), executor = stream_.get_executor()] {
    asio::post(executor, [weak] {
      const auto self = weak.lock();
      if (!self || self->ended_) return;
      if (self->asking_) {
        self->woken_ = true;
      } else {
        self->poll_.cancel();
      }
    });
  });
  ask_source();
}

EventPart Connection::next_part() {
  try {
    return events_->next();
  } catch (const std::exception&) {
    return {.text = "",
            .ended = true};  // the reader comes back, and is then told why it is refused
  }
}

void Connection::ask_source() {
  asking_ = true;
  woken_ = false;
  if (events_->is_quick()) return on_part(next_part());
  asio::post(shared_.workers, [self = shared_from_this()]() mutable {
    EventPart part = self->next_part();
    const auto executor = self->stream_.get_executor();
    asio::post(executor, [at = std::move(self), got = std::move(part)]() mutable {
      at->on_part(std::move(got));
    });
  });
}

void Connection::on_part(EventPart part) {
  if (ended_) return;
  const bool silent = steady_clock::now() - last_write_ >= shared_.options.ping_interval;
  if (part.text.empty() && silent && !part.ended) part.text = ": ping\n\n";
  body_ = std::move(part.text);
  woken_ = woken_ || part.more;
  if (part.ended) stopping_ = true;
  if (!body_.empty()) return write_part();
  if (stopping_) return close();
  if (woken_) return ask_source();
  wait_for_news();
}

void Connection::wait_for_news() {
  asking_ = false;
  poll_.expires_after(shared_.options.poll_interval);
  poll_.async_wait([self = shared_from_this()](Failure) {
    if (!self->ended_) self->ask_source();
  });
}

void Connection::write_part() {
  stream_.expires_after(shared_.options.write_timeout);
  asio::async_write(stream_, asio::buffer(body_),
                    [self = shared_from_this()](Failure failure, size_t) {
                      if (failure || self->stopping_) return self->close();
                      self->last_write_ = steady_clock::now();
                      self->ask_source();
                    });
}

}  // namespace tessera::http
