#include "base/crc32c.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define TESSERA_HAS_CRC32C 1
#else
#define TESSERA_HAS_CRC32C 0
#endif

namespace tessera {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78U;  // bits reversed
constexpr size_t kWord = sizeof(uint64_t);
constexpr size_t kCopied = size_t{16} << 10;  // a piece that stays in the nearest cache

using ByteTable = std::array<uint32_t, 256>;
using WordTables = std::array<ByteTable, kWord>;

// Table k: what a byte does to the sum when k more bytes follow it.
constexpr WordTables make_tables() {
  WordTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0U);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < kWord; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = tables[0][before & 0xFF] ^ (before >> 8);
    }
  }
  return tables;
}
constexpr WordTables kTables = make_tables();

uint32_t add_byte(uint32_t state, std::byte byte) {
  return kTables[0][(state ^ std::to_integer<uint32_t>(byte)) & 0xFF] ^ (state >> 8);
}

[[maybe_unused]] uint64_t word_at(const std::byte* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, kWord);
  return word;
}

#if TESSERA_HAS_CRC32C

constexpr size_t kLane = 2048;  // bytes; three of them are summed at a time

// A sum after `kLane` zero bytes, as a function of the sum before: four tables, one for each byte.
using Shift = std::array<ByteTable, 4>;
Shift make_shift(size_t zeros) {
  std::array<uint32_t, 32> bits{};  // what becomes of each bit; the rest are sums of these
  for (size_t i = 0; i < bits.size(); ++i) {
    bits[i] = uint32_t{1} << i;
    for (size_t k = 0; k < zeros; ++k) bits[i] = add_byte(bits[i], std::byte{0});
  }
  Shift shift{};
  for (size_t i = 0; i < bits.size(); ++i) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      if ((byte >> (i % 8) & 1U) != 0) shift[i / 8][byte] ^= bits[i];
    }
  }
  return shift;
}
uint32_t shifted(const Shift& shift, uint32_t state) {
  return shift[0][state & 0xFF] ^ shift[1][state >> 8 & 0xFF] ^ shift[2][state >> 16 & 0xFF] ^
         shift[3][state >> 24];
}

__attribute__((target("sse4.2"))) uint32_t add_by_instruction(uint32_t state,
                                                              std::span<const std::byte> bytes) {
  static const Shift kOneLane = make_shift(kLane);
  static const Shift kTwoLanes = make_shift(2 * kLane);
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 3 * kLane; left -= 3 * kLane, at += 3 * kLane) {
    uint64_t first = state, second = 0, third = 0;
    for (size_t i = 0; i < kLane; i += kWord) {
      first = _mm_crc32_u64(first, word_at(at + i));
      second = _mm_crc32_u64(second, word_at(at + kLane + i));
      third = _mm_crc32_u64(third, word_at(at + 2 * kLane + i));
    }
    state = shifted(kTwoLanes, static_cast<uint32_t>(first)) ^
            shifted(kOneLane, static_cast<uint32_t>(second)) ^ static_cast<uint32_t>(third);
  }
  uint64_t wide = state;
  for (; left >= kWord; left -= kWord, at += kWord) wide = _mm_crc32_u64(wide, word_at(at));
  state = static_cast<uint32_t>(wide);
  for (; left > 0; --left, ++at) state = _mm_crc32_u8(state, std::to_integer<uint8_t>(*at));
  return state;
}

bool has_instruction() {
  static const bool kHas = __builtin_cpu_supports("sse4.2") != 0;
  return kHas;
}

#endif

}  // namespace

uint32_t crc32c_by_tables(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t state = ~before;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= kWord; left -= kWord, at += kWord) {
    uint32_t next = 0;
    for (size_t i = 0; i < kWord; ++i) {
      const uint32_t mixed = i < 4 ? state >> (8 * i) : 0;
      next ^= kTables[kWord - 1 - i][(mixed ^ std::to_integer<uint32_t>(at[i])) & 0xFF];
    }
    state = next;
  }
  for (; left > 0; --left, ++at) state = add_byte(state, *at);
  return ~state;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
#if TESSERA_HAS_CRC32C
  if (has_instruction()) return ~add_by_instruction(~before, bytes);
#endif
  return crc32c_by_tables(bytes, before);
}

uint32_t crc32c(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

uint32_t copy_with_crc32c(std::byte* to, std::span<const std::byte> from, uint32_t before) {
  while (!from.empty()) {
    const std::span<const std::byte> piece = from.first(std::min(kCopied, from.size()));
    std::memcpy(to, piece.data(), piece.size());
    before = crc32c(piece, before);
    to += piece.size();
    from = from.subspan(piece.size());
  }
  return before;
}

}  // namespace tessera
