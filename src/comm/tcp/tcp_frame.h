// What lies before every piece of data between two ranks. A frame of another run or of another
// generation of ranks is refused: whoever sends it should not be alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace tessera::tcp {

enum class FrameKind : uint32_t {
  kControl = 1,  // a control message
  kData = 2,     // a part of a data message
  kAbort = 3,    // why the world ends
  kEnd = 4,      // the sender has nothing more to say
};

// Travels as it lies in memory, between processes of the same build.
struct FrameHeader {
  static constexpr uint32_t kMagic = 0x3150'4354;  // "TCP1"

  uint32_t magic = kMagic;
  FrameKind kind = FrameKind::kControl;
  uint64_t run = 0;
  uint64_t generation = 0;
  uint64_t message_bytes = 0;  // kData: of the whole message
  uint32_t stream = 0;         // kData
  uint32_t body_bytes = 0;     // that follow
};
static_assert(sizeof(FrameHeader) == 40);

constexpr uint32_t kMaxPartBytes = 1U << 20;  // a large message travels in parts
constexpr uint32_t kMaxReasonBytes = 4096;
constexpr uint32_t kMaxStreams = 1U << 14;
constexpr uint32_t kMaxControlBytes = 256;

// What is wrong with a header that has arrived; empty: nothing. Before anything is allocated.
std::string objection_to(const FrameHeader& header, uint64_t run, uint64_t generation);

}  // namespace tessera::tcp
