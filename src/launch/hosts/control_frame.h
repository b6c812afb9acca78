// What the agents of several hosts, and the ranks of a generation when they connect, say to each
// other, byte by byte.
//
//   frame  "TSCT", version u32, kind u32, length of the body u32, run u64, generation u64,
//          number u64, body, seal (32 bytes)
//
// Numbers are little-endian. `number` counts the frames of one direction of a connection. The seal
// is an HMAC-SHA-256 over direction and frame, with a key that only this connection has; before the
// two sides know each other (launch/hosts/handshake.h) it is zeros. So a frame that is made up,
// changed, repeated or left out is noticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

inline constexpr uint32_t kControlVersion = 2;

enum class ControlKind : uint32_t {
  // Both ways, until the two know each other.
  kHello = 1,  // who comes, and a random text
  kChallenge,  // another one
  kProof,      // that the token is known
  kWelcome,    // the same from the other side
  kRefused,    // u32 (1: for good, 0: another try may help), why
  // From an agent.
  kRenew,  // u64: its lease is to go on from when it sent this number
  kReady,  // the addresses at which its ranks will listen
  kEnded,  // how a generation has ended there: GenerationReport
  kLeave,  // it goes: why
  kSight,  // how its ranks do: HostSight
  kWhere,  // where they are: HostWhereabouts
  kRoom,   // somebody says that lost places can be filled again
  // From the coordinator.
  kRenewed,  // the number of kRenew
  kPrepare,  // sockets for so many ranks
  kStart,    // a generation begins: GenerationStart
  kEnd,      // a generation is to end within u32 milliseconds
  kFinish,   // the run is over: u32 exit code, why
  kRanks,    // what is to be done about its ranks: RankCommand
  // Both ways.
  kStale,  // what came was of a generation that is over; the newest is in the head of this frame
};
inline constexpr uint32_t kMaxControlKind = static_cast<uint32_t>(ControlKind::kStale);

struct ControlFrame {
  ControlKind kind = ControlKind::kHello;
  uint64_t run = 0;         // 0: not known yet
  uint64_t generation = 0;  // 0: none
  std::string body = {};
};

// The key of a connection and which way a frame goes.
struct Seal {
  std::string key = {};  // empty: none yet
  bool from_host = false;
  uint64_t number = 0;
};

inline constexpr size_t kControlHeadBytes = 40;
inline constexpr size_t kSealBytes = 32;
inline constexpr size_t kMaxGreetingBytes = 1024;           // of a body before both know each other
inline constexpr size_t kMaxControlBodyBytes = 256 * 1024;  // afterwards

std::string to_bytes(const ControlFrame& frame, const Seal& seal);

// How many bytes the frame that begins with `bytes` lacks, as far as is known: never more than that
// belongs to it. Throws Error as soon as it cannot be a frame with a body of at most `max_body`
// bytes.
size_t bytes_missing(std::string_view bytes, size_t max_body);

// A whole frame. Throws Error where seal or number are not those expected.
ControlFrame parse_control(std::string_view bytes, const Seal& expected);

}  // namespace tessera
