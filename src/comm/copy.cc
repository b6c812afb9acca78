#include "comm/copy.h"

#include <immintrin.h>

#include <cstring>

namespace tessera {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kAhead = 8 * kLine;  // what the hardware does not fetch early enough by itself

// `to` is aligned to a line, `size_bytes` a multiple of it.
void stream_lines(std::byte* to, const std::byte* from, int64_t size_bytes) {
  for (int64_t at = 0; at < size_bytes; at += kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(from + at + kAhead), _MM_HINT_NTA);
    __m128i parts[4];
    std::memcpy(parts, from + at, kLine);
    auto* line = reinterpret_cast<__m128i*>(to + at);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(line + i, parts[i]);
  }
  _mm_sfence();
}

}  // namespace

void copy_bytes(void* to, const void* from, int64_t size_bytes, int64_t total_bytes) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  if (total_bytes < kStreamedBytes || size_bytes < 64 * kLine) {
    std::memcpy(target, source, static_cast<size_t>(size_bytes));
    return;
  }
  const auto misaligned = static_cast<int64_t>(reinterpret_cast<uintptr_t>(target) % kLine);
  const int64_t head = misaligned == 0 ? 0 : kLine - misaligned;
  std::memcpy(target, source, static_cast<size_t>(head));
  const int64_t lines = (size_bytes - head) / kLine * kLine;
  stream_lines(target + head, source + head, lines);
  const int64_t done = head + lines;
  std::memcpy(target + done, source + done, static_cast<size_t>(size_bytes - done));
}

}  // namespace tessera
