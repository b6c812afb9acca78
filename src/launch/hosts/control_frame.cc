#include "launch/hosts/control_frame.h"

#include <algorithm>

#include "base/error.h"
#include "base/hmac.h"
#include "base/text/text.h"
#include "launch/rendezvous/frame_body.h"
#include "launch/rendezvous/token.h"

namespace tessera {
namespace {

constexpr std::string_view kMagic = "TSCT";

std::string seal_of(std::string_view bytes, const Seal& seal) {
  if (seal.key.empty()) return std::string(kSealBytes, '\0');
  return hmac_sha256(seal.key, (seal.from_host ? "H" : "G") + std::string(bytes));
}

}  // namespace

std::string to_bytes(const ControlFrame& frame, const Seal& seal) {
  std::string bytes(kMagic);
  put_number(bytes, kControlVersion);
  put_number(bytes, static_cast<uint32_t>(frame.kind));
  put_number(bytes, static_cast<uint32_t>(frame.body.size()));
  put_long(bytes, frame.run);
  put_long(bytes, frame.generation);
  put_long(bytes, seal.number);
  bytes += frame.body;
  return bytes + seal_of(bytes, seal);
}

size_t bytes_missing(std::string_view bytes, size_t max_body) {
  const size_t known = std::min(bytes.size(), kMagic.size());
  require(bytes.substr(0, known) == kMagic.substr(0, known), "{} is not the beginning of a frame",
          in_quotes(bytes, 16));
  if (bytes.size() < kControlHeadBytes) return kControlHeadBytes - bytes.size();
  FrameBody head(bytes.substr(kMagic.size()));
  const uint32_t version = head.number();
  require(version == kControlVersion,
          "it speaks version {} of the control protocol, this program version {}: start all hosts "
          "with one program",
          version, kControlVersion);
  const uint32_t kind = head.number();
  require(kind >= 1 && kind <= kMaxControlKind, "a frame of kind {}", kind);
  const size_t length = head.number();
  require(length <= max_body, "a frame of {} bytes is longer than the {} allowed", length,
          max_body);
  const size_t whole = kControlHeadBytes + length + kSealBytes;
  require(bytes.size() <= whole, "a frame of {} bytes where {} were announced", bytes.size(),
          whole);
  return whole - bytes.size();
}

ControlFrame parse_control(std::string_view bytes, const Seal& expected) {
  require(bytes.size() >= kControlHeadBytes + kSealBytes, "a frame of {} bytes", bytes.size());
  const std::string_view sealed = bytes.substr(0, bytes.size() - kSealBytes);
  require(same_token(bytes.substr(sealed.size()), seal_of(sealed, expected)),
          "a frame does not have the seal of this connection: it was made up or changed");
  FrameBody head(sealed.substr(kMagic.size() + 4));
  ControlFrame frame;
  frame.kind = static_cast<ControlKind>(head.number());
  const size_t length = head.number();
  frame.run = head.long_number();
  frame.generation = head.long_number();
  const uint64_t number = head.long_number();
  require(number == expected.number, "frame {} came where {} was expected: it was repeated or lost",
          number, expected.number);
  frame.body = std::string(head.take(length));
  head.end();
  return frame;
}

}  // namespace tessera
