// Messages between the process that serves and a rank, over one socket: a header and a body.
//
//   header   "TSRL", kind u32, length of the body u32; little-endian
//
// A length is looked at before memory is taken for it. What is no message ends the link: reading
// throws, and never reads on. Neither end waits without a bound.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/unique_fd.h"

namespace tessera::serve {

enum class LinkKind : uint32_t {
  kBegin = 1,   // to a rank, first: what it is for
  kFrame = 2,   // to a rank: serve/batch/frame_codec.h
  kEnd = 3,     // to a rank, last: nothing more will come
  kState = 4,   // from a rank, while it starts: what it does, as text
  kReady = 5,   // from a rank, once: RankReady
  kResult = 6,  // from the rank that samples, for every frame: serve/batch/frame_codec.h
  kTimes = 7,   // from a rank that was asked for them, for every frame, before its result
  kMasks = 8,   // to the rank that samples, behind a frame that says so: frame_codec.h
  kLast = kMasks,
};

struct LinkMessage {
  LinkKind kind = LinkKind::kState;
  std::vector<std::byte> body;
};

class RankLink {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // More than a frame or a result of any shape takes.
  static constexpr size_t kMostBody = size_t{64} << 20;

  // `who` is at the other end, for messages: "rank 2 (pid 4711)".
  RankLink(UniqueFd socket, std::string who, size_t most_body = kMostBody);

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] const std::string& who() const { return who_; }
  void call_peer(std::string who) { who_ = std::move(who); }

  enum class Sent : uint8_t { kAll, kClosed, kLate, kWoken };
  // The whole message, or not: then nothing more can be sent. kWoken: `wake_fd` became readable
  // meanwhile. Only one thread sends.
  [[nodiscard]] Sent send(LinkKind kind, std::span<const std::byte> body, Time deadline,
                          int wake_fd = -1);

  // Reads what is there, without waiting; the next message, if all of it has come. Only one thread
  // takes. Throws Error for what is no message.
  [[nodiscard]] std::optional<LinkMessage> take();
  // The other end is closed, or gone; what it sent before has been taken.
  [[nodiscard]] bool closed() const { return closed_; }

 private:
  static constexpr size_t kHeader = 12;

  bool read_into(std::byte* to, size_t size, size_t& have);
  void look_at_header();

  UniqueFd socket_;
  std::string who_;
  size_t most_body_;
  bool closed_ = false;
  std::byte header_[kHeader];
  size_t header_have_ = 0;
  LinkMessage message_;
  size_t body_have_ = 0;
};

// Both ends, which do not block and are closed by exec.
struct LinkPair {
  UniqueFd front;
  UniqueFd rank;
};
LinkPair make_link_pair();

// Waits until `fd` has something to read, or its other end is gone; false: the time is over.
bool wait_readable(int fd, std::chrono::milliseconds time);

}  // namespace tessera::serve
