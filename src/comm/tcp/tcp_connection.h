// One rank's end of its connection to another rank: frames go out in the order queued, control
// before data, and come in piece by piece as the network has them. Never blocks. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/tcp/tcp_frame.h"

namespace tessera::tcp {

// A data message on its way, from post to test.
struct Message {
  std::byte* data = nullptr;
  uint64_t size_bytes = 0;
  uint64_t moved_bytes = 0;
  bool done = false;
};

class Connection {
 public:
  struct Identity {
    uint64_t run = 0;
    uint64_t generation = 0;
  };
  // Takes the socket, which must not block.
  Connection(int socket, Identity identity);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] bool closed() const { return closed_; }          // nothing comes or goes any more
  [[nodiscard]] bool peer_ended() const { return peer_ended_; }  // it said so
  [[nodiscard]] bool has_output() const;

  void queue_control(std::span<const std::byte> message);
  // The message must live until it is done, or until drop_data().
  void queue_data(uint32_t stream, Message& message);
  void expect_data(uint32_t stream, Message& message);  // throws Error for another size
  void queue_end();
  // Nothing is read from or written to messages from now on; the last word follows what is half
  // sent. Empty: no word.
  void drop_data(const std::string& last_word);
  void finish_writing();  // the peer reads the end after what has been sent

  // Sends and receives what can be without waiting. Throws Error for what must not come.
  void send_some();
  void receive_some();

  // What has come: control messages in their order, and why the peer ended the world.
  [[nodiscard]] std::optional<std::vector<std::byte>> take_control();
  [[nodiscard]] std::optional<std::string> take_abort();

 private:
  static constexpr size_t kHeaderBytes = sizeof(FrameHeader);

  struct Outgoing {  // the frame that is being sent
    std::array<std::byte, kHeaderBytes> header;
    size_t header_sent = kHeaderBytes;
    const std::byte* body = nullptr;
    size_t body_left = 0;
    Message* message = nullptr;        // whose part it is
    std::vector<std::byte> own_bytes;  // where the body has no other owner
  };
  struct Queued {
    FrameKind kind;
    std::vector<std::byte> bytes;
  };
  struct QueuedData {
    uint32_t stream;
    Message* message;
  };
  // A message that comes in; where nobody expects it yet, its bytes are kept.
  struct Arriving {
    uint64_t size_bytes = 0;
    uint64_t moved_bytes = 0;
    std::vector<std::byte> kept = {};
    Message* message = nullptr;
  };
  struct Stream {
    std::deque<Arriving> arriving;
    std::deque<Message*> expected;
  };

  bool begin_frame();  // false: there is nothing to send
  void begin(FrameKind kind, std::span<const std::byte> body);
  void end_frame();
  void take_header();
  void begin_data();
  [[nodiscard]] std::byte* place_for_body();
  void take_body(size_t bytes);
  void end_body();
  void close();
  static void attach(Stream& stream);
  static void match(Stream& stream);  // and what is complete is done

  int socket_;
  Identity identity_;
  bool closed_ = false;
  bool peer_ended_ = false;
  bool deaf_ = false;  // data is read and thrown away

  Outgoing out_;
  std::deque<Queued> queue_;
  std::deque<QueuedData> data_queue_;

  std::array<std::byte, kHeaderBytes> header_bytes_{};
  size_t header_got_ = 0;
  FrameHeader header_;
  size_t body_got_ = 0;
  std::vector<std::byte> body_;  // of control and abort frames, and of what is thrown away
  std::map<uint32_t, Stream> streams_;
  std::deque<std::vector<std::byte>> control_;
  std::optional<std::string> abort_;
};

}  // namespace tessera::tcp
