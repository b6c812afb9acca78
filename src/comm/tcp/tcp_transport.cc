#include "comm/tcp/tcp_transport.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How long the reason of an abort may take to the other ranks before this one goes.
constexpr milliseconds kTimeToTell{300};
constexpr int kEndPauseMs = 20;
static_assert(tcp::kMaxStreams == Transport::kNumStreams);
static_assert(tcp::kMaxControlBytes == Transport::kMaxControlBytes);

}  // namespace

TcpTransport::TcpTransport(TcpTransportOptions options)
    : AbortableTransport(options.on_abort), options_(std::move(options)) {
  for (const TcpPeer& peer : options_.peers) {
    const tcp::Connection::Identity identity{.run = options_.run,
                                             .generation = options_.generation};
    connections_.push_back(
        peer.socket < 0 ? nullptr : std::make_unique<tcp::Connection>(peer.socket, identity));
  }
  for (int peer = 0; peer < size(); ++peer) {
    TESSERA_CHECK((connections_[static_cast<size_t>(peer)] == nullptr) == (peer == rank()),
                  "rank {} has no connection to rank {}", rank(), peer);
  }
}

TcpTransport::~TcpTransport() {
  const std::scoped_lock lock(mutex_);
  try {
    if (!abort_flag().raised()) end_in_peace();
  } catch (const std::exception& error) {
    if (options_.on_warning) {
      options_.on_warning(fmt::format("the connections did not end well: {}", error.what()));
    }
  }
  if (abort_flag().raised()) fall_silent();
}

int TcpTransport::node_of(int rank) const { return options_.peers[static_cast<size_t>(rank)].node; }

std::string TcpTransport::describe_peer(int rank) const {
  const TcpPeer& peer = options_.peers[static_cast<size_t>(rank)];
  return fmt::format("rank {} (pid {} on {})", rank, peer.pid, peer.host);
}

void TcpTransport::require_open() const {
  if (abort_flag().raised()) throw CommError(abort_reason());
}

tcp::Connection& TcpTransport::to(int peer) {
  TESSERA_CHECK(peer >= 0 && peer < size() && peer != rank(), "no connection to rank {}", peer);
  return *connections_[static_cast<size_t>(peer)];
}

void TcpTransport::send_control(int peer, std::span<const std::byte> message) {
  TESSERA_CHECK(!message.empty() && message.size() <= kMaxControlBytes, "{} bytes", message.size());
  const std::scoped_lock lock(mutex_);
  require_open();
  to(peer).queue_control(message);
  to(peer).send_some();
}

Transport::ControlMessage TcpTransport::poll_control() {
  const std::scoped_lock lock(mutex_);
  if (control_.empty()) return {};
  const int from = control_.front().from;
  lent_ = std::move(control_.front().bytes);
  control_.pop_front();
  return {.from = from, .bytes = lent_};
}

Transport::Request TcpTransport::new_message(std::byte* data, int64_t size_bytes) {
  TESSERA_CHECK(size_bytes >= 0, "{} bytes", size_bytes);
  require_open();
  if (free_messages_.empty()) {
    free_messages_.push_back(static_cast<int>(messages_.size()));
    messages_.emplace_back();
    free_messages_.reserve(messages_.size());
  }
  const int index = free_messages_.back();
  free_messages_.pop_back();
  messages_[static_cast<size_t>(index)] = {.data = data,
                                           .size_bytes = static_cast<uint64_t>(size_bytes)};
  return {index};
}

Transport::Request TcpTransport::post_send(int peer, uint32_t stream, const void* data,
                                           int64_t size_bytes) {
  TESSERA_CHECK(stream < kNumStreams, "stream {}", stream);
  const std::scoped_lock lock(mutex_);
  // A message that is sent is never written to.
  auto* bytes = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  const Request request = new_message(bytes, size_bytes);
  to(peer).queue_data(stream, messages_[static_cast<size_t>(request.id)]);
  to(peer).send_some();
  return request;
}

Transport::Request TcpTransport::post_receive(int peer, uint32_t stream, void* data,
                                              int64_t size_bytes) {
  TESSERA_CHECK(stream < kNumStreams, "stream {}", stream);
  const std::scoped_lock lock(mutex_);
  const Request request = new_message(static_cast<std::byte*>(data), size_bytes);
  try {
    to(peer).expect_data(stream, messages_[static_cast<size_t>(request.id)]);
  } catch (const Error& error) {
    fail(fmt::format("{}: {}", describe_peer(peer), error.what()));
  }
  return request;
}

bool TcpTransport::test(Request request) {
  const std::scoped_lock lock(mutex_);
  if (!messages_[static_cast<size_t>(request.id)].done) return false;
  free_messages_.push_back(static_cast<int>(request.id));
  return true;
}

// No connection looks at messages after an abort (drop_data), and none is ended without one.
void TcpTransport::cancel(Request request) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!messages_[static_cast<size_t>(request.id)].done && !std::exchange(silent_, true)) {
    for (const auto& connection : connections_) {
      if (connection != nullptr && !abort_flag().raised()) connection->drop_data("");
    }
  }
}

void TcpTransport::progress() {
  const std::scoped_lock lock(mutex_);
  poll(0);
}

void TcpTransport::poll(int milliseconds) {
  const std::string trouble = options_.trouble ? options_.trouble() : "";
  if (!trouble.empty() && raise(trouble)) send_reason();
  std::vector<pollfd> entries;
  std::vector<int> ranks;
  for (int peer = 0; peer < size(); ++peer) {
    const tcp::Connection* connection = connections_[static_cast<size_t>(peer)].get();
    if (connection == nullptr || connection->closed()) continue;
    const int events = POLLIN | (connection->has_output() ? POLLOUT : 0);
    entries.push_back(
        {.fd = connection->socket(), .events = static_cast<short>(events), .revents = 0});
    ranks.push_back(peer);
  }
  if (::poll(entries.data(), entries.size(), milliseconds) <= 0) return;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].revents != 0) poll_peer(ranks[i], entries[i].revents);
  }
}

void TcpTransport::poll_peer(int peer, short events) {
  tcp::Connection& connection = to(peer);
  const bool ended = connection.peer_ended();
  std::string wrong;
  try {
    if ((events & POLLOUT) != 0) connection.send_some();
    connection.receive_some();
  } catch (const Error& error) {
    wrong = error.what();
  }
  while (auto message = connection.take_control()) control_.push_back({peer, std::move(*message)});
  if (const std::optional<std::string> reason = connection.take_abort()) {
    if (raise(*reason)) send_reason();
  }
  if (abort_flag().raised()) return;
  if (!wrong.empty()) fail(fmt::format("{}: {}", describe_peer(peer), wrong));
  if (connection.closed() && !ended && !connection.peer_ended()) {
    fail(fmt::format("{} is gone: its connection has ended", describe_peer(peer)));
  }
}

void TcpTransport::send_reason() {
  const std::string reason = abort_reason();
  for (const auto& connection : connections_) {
    if (connection == nullptr) continue;
    connection->drop_data(reason);
    connection->send_some();
  }
}

bool TcpTransport::has_output() const {
  return std::any_of(connections_.begin(), connections_.end(), [](const auto& connection) {
    return connection != nullptr && connection->has_output();
  });
}

// A socket that is closed with something unread takes back what it has sent: so the peers' last
// words are read until they have gone as well.
void TcpTransport::fall_silent() noexcept {
  const auto deadline = Clock::now() + kTimeToTell;
  bool told = false;
  try {
    while (Clock::now() < deadline) {
      if (!told && !has_output()) {
        for (const auto& connection : connections_) {
          if (connection != nullptr) connection->finish_writing();
        }
        told = true;
      }
      const bool all_gone = std::all_of(
          connections_.begin(), connections_.end(),
          [](const auto& connection) { return connection == nullptr || connection->closed(); });
      if (all_gone) break;
      poll(kEndPauseMs);
    }
  } catch (const std::exception&) {
    // The first failure is the one that counts.
  }
}

void TcpTransport::end_in_peace() {
  for (const auto& connection : connections_) {
    if (connection != nullptr) connection->queue_end();
  }
  const auto deadline = Clock::now() + options_.timeout;
  while (!absent_at_the_end().empty() || has_output()) {
    poll(kEndPauseMs);
    if (abort_flag().raised()) return;
    if (Clock::now() > deadline) {
      fail(fmt::format("waited {:.3f} s at the end of the world for {}",
                       static_cast<double>(options_.timeout.count()) / 1000, absent_at_the_end()));
    }
  }
}

std::string TcpTransport::absent_at_the_end() const {
  std::string absent;
  for (int peer = 0; peer < size(); ++peer) {
    const auto& connection = connections_[static_cast<size_t>(peer)];
    if (connection == nullptr || connection->peer_ended()) continue;
    absent += (absent.empty() ? "" : ", ") + describe_peer(peer);
  }
  return absent;
}

}  // namespace tessera
