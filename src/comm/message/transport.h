// What a network must offer for the message communicators (comm/message/message_world.h): small
// control messages that arrive by themselves, and data messages between two buffers. Peers are
// world ranks. One object per rank.
//
// The protocol above it: a call sends each of its peers one control message, the fingerprint of
// the call, which names the stream that the call's data to that peer will use. Data receives are
// posted only after the fingerprints agree, with the very size that the sender sends. So a
// transport never has to guess: a stream number is used for one call at a time between two ranks,
// and a data message that is longer or shorter than its receive is a bug, to be reported without
// writing past the buffer.
//
// Ownership: the buffers of data messages belong to the caller, who keeps them alive until test()
// said true or cancel() returned; control messages are copied before send_control returns.
//
// Threads: one thread at a time (the caller holds a lock), and never two at once; but abort,
// abort_flag and abort_reason may be called by any thread at any time. Nothing here blocks.
//
// Failure: whoever sees one first (a broken connection, a message of the wrong size) calls
// abort() and throws CommError. Every function may throw CommError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "tensor/wait.h"

namespace tessera {

class Transport {
 public:
  static constexpr size_t kMaxControlBytes = 256;

  // A data message on its way. The number is the transport's own; equal ones may be used again once
  // test() said true.
  struct Request {
    int64_t id = -1;
  };

  struct ControlMessage {
    int from = -1;                          // -1: none has arrived
    std::span<const std::byte> bytes = {};  // valid until the next call of poll_control
  };

  virtual ~Transport() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // Ranks with the same number share a host. Numbered from 0 in order of their lowest rank.
  [[nodiscard]] virtual int node_of(int rank) const = 0;
  // "rank 2 (pid 4711 on host b)", for messages.
  [[nodiscard]] virtual std::string describe_peer(int rank) const = 0;

  // 1 to kMaxControlBytes bytes to another rank. Messages to one rank arrive in the order sent.
  // Accepted at once, however many are on their way.
  virtual void send_control(int peer, std::span<const std::byte> message) = 0;
  // The next message that has arrived from anyone.
  virtual ControlMessage poll_control() = 0;

  // Data, of any size from 0 bytes (more than 2^31 too). Messages with the same pair of ranks and
  // the same stream match in the order posted; different streams are independent. `stream` is
  // chosen by the sender, is below kNumStreams and comes back into use only after everything on it
  // has been received.
  static constexpr uint32_t kNumStreams = 1U << 14;
  virtual Request post_send(int peer, uint32_t stream, const void* data, int64_t size_bytes) = 0;
  virtual Request post_receive(int peer, uint32_t stream, void* data, int64_t size_bytes) = 0;
  // Whether the buffer may be used again; true ends the request.
  virtual bool test(Request request) = 0;
  // Ends a request that is not done, after an abort: from now on nothing is written to its buffer.
  virtual void cancel(Request request) noexcept = 0;

  // Moves things along. Called all the time while somebody waits.
  virtual void progress() = 0;

  // Raises the flag here and, as soon as it can be told, on every other rank. The first reason
  // stays. Peers notice in progress(), in less than half a second if they wait.
  virtual void abort(const std::string& reason) = 0;
  [[nodiscard]] virtual const AbortFlag& abort_flag() const = 0;
  [[nodiscard]] virtual std::string abort_reason() const = 0;

  // Whether whoever started the ranks wants them to end after the step at hand.
  [[nodiscard]] virtual bool stop_requested() const { return false; }
};

}  // namespace tessera
