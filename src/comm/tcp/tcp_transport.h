// Messages over TCP: a connection for each pair of ranks, which whoever starts the ranks has made
// (launch/hosts). Nothing here waits: a call sends and receives what the system takes and has.
//
// An abort travels as a frame to every rank. A connection that ends before the peer has said that
// it has nothing more to say is the loss of that rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/message/abortable_transport.h"
#include "comm/tcp/tcp_connection.h"

namespace tessera {

struct TcpPeer {
  int socket = -1;  // connected, and does not block; of this rank itself: -1
  int64_t pid = 0;
  std::string host;
  int node = 0;  // as Transport::node_of
};

struct TcpTransportOptions {
  int rank = 0;
  std::vector<TcpPeer> peers = {};  // by rank; their sockets are the transport's from now on
  uint64_t run = 0;                 // in every frame; another one is refused
  uint64_t generation = 1;
  std::chrono::milliseconds timeout{60'000};                // for the peers at the end
  std::function<void(const std::string&)> on_warning = {};  // null: dropped
  // Why this rank should stop, by whoever watches it from outside; empty: it should not. Asked all
  // the time while somebody waits.
  std::function<std::string()> trouble = {};
  // The first reason of an abort, whoever it came from.
  std::function<void(const std::string&)> on_abort = {};
};

class TcpTransport final : public AbortableTransport {
 public:
  explicit TcpTransport(TcpTransportOptions options);
  // Ends with the other ranks, unless there was an abort.
  ~TcpTransport() override;
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  [[nodiscard]] int rank() const override { return options_.rank; }
  [[nodiscard]] int size() const override { return static_cast<int>(options_.peers.size()); }
  [[nodiscard]] int node_of(int rank) const override;
  [[nodiscard]] std::string describe_peer(int rank) const override;

  void send_control(int peer, std::span<const std::byte> message) override;
  ControlMessage poll_control() override;
  Request post_send(int peer, uint32_t stream, const void* data, int64_t size_bytes) override;
  Request post_receive(int peer, uint32_t stream, void* data, int64_t size_bytes) override;
  bool test(Request request) override;
  void cancel(Request request) noexcept override;
  void progress() override;

 private:
  // With mutex_ held, as all that follow.
  void send_reason() override;
  void require_open() const;
  [[nodiscard]] tcp::Connection& to(int peer);
  Request new_message(std::byte* data, int64_t size_bytes);
  void poll(int milliseconds);
  void poll_peer(int peer, short events);
  void end_in_peace();
  void fall_silent() noexcept;
  [[nodiscard]] bool has_output() const;
  [[nodiscard]] std::string absent_at_the_end() const;

  const TcpTransportOptions options_;
  // Guarded by mutex_.
  std::vector<std::unique_ptr<tcp::Connection>> connections_;  // by rank; null: this one
  std::deque<tcp::Message> messages_;  // a deque: connections hold addresses
  std::vector<int> free_messages_;
  struct Control {
    int from;
    std::vector<std::byte> bytes;
  };
  std::deque<Control> control_;
  std::vector<std::byte> lent_;  // what the caller of poll_control looks at
  bool silent_ = false;          // a message was cancelled: none is looked at any more
};

}  // namespace tessera
