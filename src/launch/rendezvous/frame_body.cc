#include "launch/rendezvous/frame_body.h"

#include "base/error.h"

namespace tessera {
namespace {

void put_bytes(std::string& bytes, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xffU);
}

uint64_t number_of(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    value = value << 8U | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

}  // namespace

void put_number(std::string& bytes, uint32_t value) { put_bytes(bytes, value, 4); }
void put_long(std::string& bytes, uint64_t value) { put_bytes(bytes, value, 8); }

void put_text(std::string& bytes, std::string_view text) {
  put_number(bytes, static_cast<uint32_t>(text.size()));
  bytes += text;
}

uint32_t FrameBody::number() { return static_cast<uint32_t>(number_of(take(4))); }
uint64_t FrameBody::long_number() { return number_of(take(8)); }

std::string_view FrameBody::take(size_t count) {
  require(count <= rest_.size(), "a frame ends after {} of {} bytes", rest_.size(), count);
  const std::string_view bytes = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return bytes;
}

void FrameBody::end() const {
  require(rest_.empty(), "a frame has {} bytes more than it should", rest_.size());
}

}  // namespace tessera
