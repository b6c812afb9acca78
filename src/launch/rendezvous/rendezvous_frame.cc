#include "launch/rendezvous/rendezvous_frame.h"

#include <algorithm>

#include "base/error.h"
#include "base/hmac.h"
#include "base/text/text.h"
#include "launch/rendezvous/frame_body.h"

namespace tessera {
namespace {

constexpr std::string_view kMagic = "TSRV";
constexpr size_t kHeaderBytes = 16;

void put_texts(std::string& bytes, std::span<const std::string> texts) {
  put_number(bytes, static_cast<uint32_t>(texts.size()));
  for (const std::string& text : texts) put_text(bytes, text);
}

}  // namespace

std::string to_bytes(const Frame& frame) {
  std::string bytes(kMagic);
  put_number(bytes, frame.version);
  put_number(bytes, static_cast<uint32_t>(frame.kind));
  put_text(bytes, frame.body);
  return bytes;
}

std::string to_bytes(const Hello& hello) {
  std::string body;
  put_text(body, hello.nonce);
  put_number(body, hello.rank);
  put_number(body, hello.size);
  put_text(body, hello.payload);
  return to_bytes(Frame{.kind = FrameKind::kHello, .body = body});
}

std::string to_bytes(const Refusal& refusal) {
  std::string body;
  put_number(body, refusal.wrongly_started ? 1U : 0U);
  put_text(body, refusal.reason);
  return to_bytes(Frame{.kind = FrameKind::kRefused, .body = body});
}

std::string to_bytes(FrameKind kind, std::string_view text) {
  std::string body;
  put_text(body, text);
  return to_bytes(Frame{.kind = kind, .body = body});
}

std::string to_bytes(const Table& table) {
  std::string body;
  put_texts(body, table.payloads);
  put_text(body, table.proof);
  return to_bytes(Frame{.kind = FrameKind::kTable, .body = body});
}

std::string proof_of(std::string_view word, const Hello& hello, std::string_view challenge,
                     std::string_view token, std::span<const std::string> payloads) {
  std::string text;
  put_text(text, "tessera rendezvous");
  put_text(text, word);
  put_text(text, to_bytes(hello));
  put_text(text, challenge);
  put_texts(text, payloads);
  return hmac_sha256(token, text);
}

Hello parse_hello(const Frame& frame) {
  FrameBody body(frame.body);
  Hello hello;
  hello.nonce = body.text();
  hello.rank = body.number();
  hello.size = body.number();
  hello.payload = body.text();
  body.end();
  return hello;
}

Refusal parse_refusal(const Frame& frame) {
  FrameBody body(frame.body);
  Refusal refusal;
  refusal.wrongly_started = body.number() == 1;
  refusal.reason = body.text();
  return refusal;
}

Table parse_table(const Frame& frame) {
  FrameBody body(frame.body);
  Table table;
  const uint32_t count = body.number();
  for (uint32_t i = 0; i < count; ++i) table.payloads.push_back(body.text());
  table.proof = body.text();
  body.end();
  return table;
}

std::string parse_text(const Frame& frame) {
  FrameBody body(frame.body);
  std::string text = body.text();
  body.end();
  return text;
}

std::optional<Frame> take_frame(std::string& bytes, size_t max_body) {
  const size_t known = std::min(bytes.size(), kMagic.size());
  require(bytes.compare(0, known, kMagic, 0, known) == 0, "{} is not the beginning of a frame",
          in_quotes(bytes, 16));
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  FrameBody header(std::string_view(bytes).substr(kMagic.size(), kHeaderBytes - kMagic.size()));
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
