#include "comm/tcp/tcp_frame.h"

#include <fmt/format.h>

namespace tessera::tcp {
namespace {

uint32_t most_bytes(const FrameHeader& header) {
  switch (header.kind) {
    case FrameKind::kControl:
      return kMaxControlBytes;
    case FrameKind::kData:
      return kMaxPartBytes;
    case FrameKind::kAbort:
      return kMaxReasonBytes;
    case FrameKind::kEnd:
      return 0;
  }
  return 0;
}

}  // namespace

std::string objection_to(const FrameHeader& header, uint64_t run, uint64_t generation) {
  if (header.magic != FrameHeader::kMagic) return "it does not speak as a rank does";
  if (header.run != run) return "it belongs to another run";
  if (header.generation != generation) {
    return fmt::format("it is of generation {}, and this is generation {}", header.generation,
                       generation);
  }
  const auto kind = static_cast<uint32_t>(header.kind);
  if (kind < 1 || kind > 4) return fmt::format("it sent a frame of kind {}", kind);
  if (header.body_bytes > most_bytes(header)) {
    return fmt::format("it sent a frame of {} bytes, and {} are the most", header.body_bytes,
                       most_bytes(header));
  }
  if (header.kind == FrameKind::kControl && header.body_bytes == 0) return "it sent an empty frame";
  if (header.kind != FrameKind::kData) return "";
  if (header.stream >= kMaxStreams) return fmt::format("it sent to stream {}", header.stream);
  if (header.body_bytes > header.message_bytes) {
    return fmt::format("it sent {} bytes of a message of {}", header.body_bytes,
                       header.message_bytes);
  }
  if (header.body_bytes == 0 && header.message_bytes != 0) return "it sent a part of no bytes";
  return "";
}

}  // namespace tessera::tcp
