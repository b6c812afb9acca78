// The messages of a rendezvous, byte by byte.
//
//   frame     "TSRV", version u32, kind u32, length of the body u32, body
//   hello     random text, rank u32, world size u32, payload    guest -> rank 0, first
//   challenge random text                                       rank 0 -> guest, at once
//   proof     proof of "guest"                                  guest -> rank 0
//   accepted  proof of "host"                                   rank 0 -> guest, at once
//   refused   u32 (1: wrongly started, 0: anything else), text  rank 0 -> guest, at any time
//   table     count u32, payloads, proof of "table"             rank 0 -> guest, when all are there
// A proof is the HMAC, with the token of the run, of its word, of the hello and the challenge, and
// of the payloads that go with it: the token itself does not travel, and what was overheard once is
// of no use for another connection. Numbers are little-endian; a text is its length (u32) and its
// bytes. The frame and `refused` are the same in every version, so that versions can tell each
// other that they differ.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

inline constexpr uint32_t kRendezvousVersion = 2;

enum class FrameKind : uint32_t {
  kHello = 1,
  kAccepted = 2,
  kRefused = 3,
  kTable = 4,
  kChallenge = 5,
  kProof = 6
};

struct Frame {
  uint32_t version = kRendezvousVersion;
  FrameKind kind = FrameKind::kHello;
  std::string body;
};

struct Hello {
  std::string nonce;  // random, of this connection alone
  uint32_t rank = 0;
  uint32_t size = 0;
  std::string payload;
};

struct Refusal {
  bool wrongly_started = false;
  std::string reason;
};

std::string to_bytes(const Frame& frame);
std::string to_bytes(const Hello& hello);
std::string to_bytes(const Refusal& refusal);
// A frame of one text: a challenge, a proof, an acceptance.
std::string to_bytes(FrameKind kind, std::string_view text);
struct Table {
  std::vector<std::string> payloads;
  std::string proof;
};
std::string to_bytes(const Table& table);

// What shows that somebody knows `token`, for the conversation that `hello` and `challenge` began.
std::string proof_of(std::string_view word, const Hello& hello, std::string_view challenge,
                     std::string_view token, std::span<const std::string> payloads = {});

// Each throws Error when the body is not what it should be.
Hello parse_hello(const Frame& frame);
Refusal parse_refusal(const Frame& frame);
Table parse_table(const Frame& frame);
std::string parse_text(const Frame& frame);

// Takes the first frame out of `bytes` when it is complete. Throws Error as soon as the bytes
// cannot be the beginning of a frame with a body of at most `max_body` bytes.
std::optional<Frame> take_frame(std::string& bytes, size_t max_body);

}  // namespace tessera
