#include "comm/tcp/tcp_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tessera::tcp {
namespace {

// That much at once, so that one peer does not keep the others waiting.
constexpr size_t kMostPerTurn = size_t{4} << 20;

}  // namespace

Connection::Connection(int socket, Identity identity) : socket_(socket), identity_(identity) {}
Connection::~Connection() { close(); }

void Connection::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  closed_ = true;
}

bool Connection::has_output() const {
  return !closed_ && (out_.header_sent < kHeaderBytes || out_.body_left > 0 || !queue_.empty() ||
                      !data_queue_.empty());
}

void Connection::queue_control(std::span<const std::byte> message) {
  queue_.push_back({FrameKind::kControl, {message.begin(), message.end()}});
}

void Connection::queue_data(uint32_t stream, Message& message) {
  data_queue_.push_back({stream, &message});
}

void Connection::queue_end() { queue_.push_back({FrameKind::kEnd, {}}); }

void Connection::drop_data(const std::string& last_word) {
  deaf_ = true;
  if (out_.message != nullptr) {
    // The peer expects the rest of the part before it can read anything else.
    out_.own_bytes.assign(out_.body, out_.body + out_.body_left);
    out_.body = out_.own_bytes.data();
    out_.message = nullptr;
  }
  data_queue_.clear();
  queue_.clear();
  streams_.clear();
  if (last_word.empty()) return;
  const auto* bytes = reinterpret_cast<const std::byte*>(last_word.data());
  const size_t length = std::min<size_t>(last_word.size(), kMaxReasonBytes);
  queue_.push_back({FrameKind::kAbort, {bytes, bytes + length}});
}

void Connection::finish_writing() {
  if (socket_ >= 0) ::shutdown(socket_, SHUT_WR);
}

// ---- out

void Connection::begin(FrameKind kind, std::span<const std::byte> body) {
  FrameHeader header{.kind = kind,
                     .run = identity_.run,
                     .generation = identity_.generation,
                     .body_bytes = static_cast<uint32_t>(body.size())};
  if (kind == FrameKind::kData) {
    header.stream = data_queue_.front().stream;
    header.message_bytes = data_queue_.front().message->size_bytes;
  }
  std::memcpy(out_.header.data(), &header, kHeaderBytes);
  out_.header_sent = 0;
  out_.body = body.data();
  out_.body_left = body.size();
}

bool Connection::begin_frame() {
  if (!queue_.empty()) {
    out_.own_bytes = std::move(queue_.front().bytes);
    begin(queue_.front().kind, out_.own_bytes);
    queue_.pop_front();
    return true;
  }
  if (data_queue_.empty()) return false;
  Message& message = *data_queue_.front().message;
  const uint64_t left = message.size_bytes - message.moved_bytes;
  const auto part = static_cast<size_t>(std::min<uint64_t>(left, kMaxPartBytes));
  begin(FrameKind::kData, {message.data + message.moved_bytes, part});
  message.moved_bytes += part;
  out_.message = &message;
  if (message.moved_bytes == message.size_bytes) data_queue_.pop_front();
  return true;
}

void Connection::end_frame() {
  if (out_.message == nullptr) return;
  const bool last = data_queue_.empty() || data_queue_.front().message != out_.message;
  if (last) out_.message->done = true;
  out_.message = nullptr;
}

void Connection::send_some() {
  for (size_t sent = 0; sent < kMostPerTurn && !closed_;) {
    if (out_.header_sent == kHeaderBytes && out_.body_left == 0 && !begin_frame()) return;
    std::array<iovec, 2> parts{};
    parts[0] = {.iov_base = out_.header.data() + out_.header_sent,
                .iov_len = kHeaderBytes - out_.header_sent};
    parts[1] = {.iov_base = const_cast<std::byte*>(out_.body), .iov_len = out_.body_left};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t got = ::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    // What the peer has said before it went is still to be read.
    if (got < 0) return;
    auto moved = static_cast<size_t>(got);
    sent += moved;
    const size_t of_header = std::min(moved, kHeaderBytes - out_.header_sent);
    out_.header_sent += of_header;
    moved -= of_header;
    out_.body += moved;
    out_.body_left -= moved;
    if (out_.header_sent == kHeaderBytes && out_.body_left == 0) end_frame();
  }
}

// ---- in

void Connection::receive_some() {
  for (size_t received = 0; received < kMostPerTurn && !closed_;) {
    const bool in_header = header_got_ < kHeaderBytes;
    std::byte* const place = in_header ? header_bytes_.data() + header_got_ : place_for_body();
    const size_t wanted = in_header ? kHeaderBytes - header_got_ : header_.body_bytes - body_got_;
    const ssize_t got = ::recv(socket_, place, wanted, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return close();
    received += static_cast<size_t>(got);
    if (in_header) {
      header_got_ += static_cast<size_t>(got);
      if (header_got_ == kHeaderBytes) take_header();
    } else {
      take_body(static_cast<size_t>(got));
    }
  }
}

void Connection::take_header() {
  std::memcpy(&header_, header_bytes_.data(), kHeaderBytes);
  const std::string objection = objection_to(header_, identity_.run, identity_.generation);
  if (!objection.empty()) {
    close();
    throw Error(objection);
  }
  body_got_ = 0;
  if (header_.kind == FrameKind::kData && !deaf_) {
    begin_data();
  } else if (body_.size() < header_.body_bytes) {
    body_.resize(header_.body_bytes);
  }
  if (header_.body_bytes == 0) end_body();
}

void Connection::begin_data() {
  Stream& stream = streams_[header_.stream];
  const bool goes_on = !stream.arriving.empty() &&
                       stream.arriving.back().moved_bytes < stream.arriving.back().size_bytes;
  if (!goes_on) {
    stream.arriving.push_back({.size_bytes = header_.message_bytes});
    attach(stream);
  }
  Arriving& arriving = stream.arriving.back();
  require(arriving.size_bytes == header_.message_bytes &&
              header_.body_bytes <= arriving.size_bytes - arriving.moved_bytes,
          "it sent a part of {} bytes where {} of {} had come", header_.body_bytes,
          arriving.moved_bytes, arriving.size_bytes);
  if (arriving.message == nullptr) {
    arriving.kept.resize(static_cast<size_t>(arriving.moved_bytes) + header_.body_bytes);
  }
}

std::byte* Connection::place_for_body() {
  if (header_.kind != FrameKind::kData || deaf_) {
    if (body_.size() < header_.body_bytes) body_.resize(header_.body_bytes);
    return body_.data() + body_got_;
  }
  Arriving& arriving = streams_[header_.stream].arriving.back();
  std::byte* const begin =
      arriving.message != nullptr ? arriving.message->data : arriving.kept.data();
  return begin + arriving.moved_bytes;
}

void Connection::take_body(size_t bytes) {
  body_got_ += bytes;
  if (header_.kind == FrameKind::kData && !deaf_) {
    streams_[header_.stream].arriving.back().moved_bytes += bytes;
  }
  if (body_got_ == header_.body_bytes) end_body();
}

void Connection::end_body() {
  header_got_ = 0;
  const std::span<const std::byte> body(body_.data(), header_.body_bytes);
  switch (header_.kind) {
    case FrameKind::kControl:
      if (!deaf_) control_.emplace_back(body.begin(), body.end());
      return;
    case FrameKind::kAbort:
      abort_ = std::string(reinterpret_cast<const char*>(body.data()), body.size());
      return;
    case FrameKind::kEnd:
      peer_ended_ = true;
      return;
    case FrameKind::kData:
      if (!deaf_) match(streams_[header_.stream]);
      return;
  }
}

// Messages and receives of a stream find each other in their order.
void Connection::attach(Stream& stream) {
  for (Arriving& arriving : stream.arriving) {
    if (arriving.message != nullptr) continue;
    if (stream.expected.empty()) break;
    Message& message = *stream.expected.front();
    stream.expected.pop_front();
    require(message.size_bytes == arriving.size_bytes, "it sent {} bytes where {} were expected",
            arriving.size_bytes, message.size_bytes);
    if (arriving.moved_bytes > 0) {
      std::memcpy(message.data, arriving.kept.data(), static_cast<size_t>(arriving.moved_bytes));
    }
    arriving.kept = {};
    arriving.message = &message;
  }
}

void Connection::match(Stream& stream) {
  attach(stream);
  while (!stream.arriving.empty()) {
    Arriving& first = stream.arriving.front();
    if (first.message == nullptr || first.moved_bytes < first.size_bytes) return;
    first.message->done = true;
    stream.arriving.pop_front();
  }
}

void Connection::expect_data(uint32_t stream, Message& message) {
  Stream& one = streams_[stream];
  one.expected.push_back(&message);
  match(one);
}

std::optional<std::vector<std::byte>> Connection::take_control() {
  if (control_.empty()) return std::nullopt;
  std::vector<std::byte> message = std::move(control_.front());
  control_.pop_front();
  return message;
}

std::optional<std::string> Connection::take_abort() { return std::exchange(abort_, std::nullopt); }

}  // namespace tessera::tcp
