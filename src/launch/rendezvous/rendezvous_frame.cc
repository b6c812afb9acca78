#include "launch/rendezvous/rendezvous_frame.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr std::string_view kMagic = "TSRV";
constexpr size_t kHeaderBytes = 16;

void put(std::string& bytes, uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xffU);
}

void put(std::string& bytes, std::string_view text) {
  put(bytes, static_cast<uint32_t>(text.size()));
  bytes += text;
}

// Reads a body from front to back.
class Body {
 public:
  explicit Body(std::string_view bytes) : rest_(bytes) {}
  uint32_t number() {
    const std::string_view bytes = take(4);
    uint32_t value = 0;
    for (int i = 3; i >= 0; --i) {
      value = value << 8U | static_cast<unsigned char>(bytes[static_cast<size_t>(i)]);
    }
    return value;
  }
  std::string text() { return std::string(take(number())); }
  void end() const {
    require(rest_.empty(), "a frame has {} bytes more than it should", rest_.size());
  }

 private:
  std::string_view take(size_t count) {
    require(count <= rest_.size(), "a frame ends after {} of {} bytes", rest_.size(), count);
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  std::string_view rest_;
};

}  // namespace

std::string to_bytes(const Frame& frame) {
  std::string bytes(kMagic);
  put(bytes, frame.version);
  put(bytes, static_cast<uint32_t>(frame.kind));
  put(bytes, frame.body);
  return bytes;
}

std::string to_bytes(const Hello& hello) {
  std::string body;
  put(body, hello.token);
  put(body, hello.rank);
  put(body, hello.size);
  put(body, hello.payload);
  return to_bytes(Frame{.kind = FrameKind::kHello, .body = body});
}

std::string to_bytes(const Refusal& refusal) {
  std::string body;
  put(body, refusal.wrongly_started ? 1U : 0U);
  put(body, refusal.reason);
  return to_bytes(Frame{.kind = FrameKind::kRefused, .body = body});
}

std::string table_bytes(std::span<const std::string> payloads) {
  std::string body;
  put(body, static_cast<uint32_t>(payloads.size()));
  for (const std::string& payload : payloads) put(body, payload);
  return to_bytes(Frame{.kind = FrameKind::kTable, .body = body});
}

std::string accepted_bytes() { return to_bytes(Frame{.kind = FrameKind::kAccepted, .body = {}}); }

Hello parse_hello(const Frame& frame) {
  Body body(frame.body);
  Hello hello;
  hello.token = body.text();
  hello.rank = body.number();
  hello.size = body.number();
  hello.payload = body.text();
  body.end();
  return hello;
}

Refusal parse_refusal(const Frame& frame) {
  Body body(frame.body);
  Refusal refusal;
  refusal.wrongly_started = body.number() == 1;
  refusal.reason = body.text();
  return refusal;
}

std::vector<std::string> parse_table(const Frame& frame) {
  Body body(frame.body);
  std::vector<std::string> payloads;
  const uint32_t count = body.number();
  for (uint32_t i = 0; i < count; ++i) payloads.push_back(body.text());
  body.end();
  return payloads;
}

std::optional<Frame> take_frame(std::string& bytes, size_t max_body) {
  const size_t known = std::min(bytes.size(), kMagic.size());
  require(bytes.compare(0, known, kMagic, 0, known) == 0, "{} is not the beginning of a frame",
          in_quotes(bytes, 16));
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  Body header(std::string_view(bytes).substr(kMagic.size(), kHeaderBytes - kMagic.size()));
  Frame frame;
  frame.version = header.number();
  frame.kind = static_cast<FrameKind>(header.number());
  const size_t length = header.number();
  require(length <= max_body, "a frame of {} bytes is longer than the {} expected", length,
          max_body);
  if (bytes.size() < kHeaderBytes + length) return std::nullopt;
  frame.body = bytes.substr(kHeaderBytes, length);
  bytes.erase(0, kHeaderBytes + length);
  return frame;
}

}  // namespace tessera
