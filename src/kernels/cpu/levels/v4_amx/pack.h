// Operands in tiles of 1 KiB: sixteen lines (rows of a, columns of b), 32 elements of each along k.
// A tile of a has a line in each of its rows; a tile of b has two neighbours along k of all lines
// in each row. All of it is local to the source that includes this.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <type_traits>

#include "base/dtype.h"

namespace tessera::kernels::cpu::levels {
namespace {

constexpr int64_t kLines = 16;
constexpr int64_t kGroup = 32;  // elements along k
constexpr int64_t kTileSize = kLines * kGroup;

// All lanes: without a mask gcc 12 warns of what its own headers leave undefined.
constexpr __mmask16 kAll = 0xffff;
constexpr __mmask8 kAllHalf = 0xff;

// The first `count` bits; all of `width` where there are more.
inline uint32_t first_bits(int64_t count, int64_t width) {
  const int64_t bits = count < width ? (count < 0 ? 0 : count) : width;
  return static_cast<uint32_t>((uint64_t{1} << bits) - 1);
}

// 32 or 16 elements as bf16, zeros where the mask has none: what it leaves out is not read.
inline __m512i load_32(const BFloat16* from, uint32_t mask) {
  return _mm512_maskz_loadu_epi16(mask, from);
}
inline __m512i load_32(const float* from, uint32_t mask) {
  const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
  const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), from + 16);
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}
inline __m256i load_16(const BFloat16* from, uint32_t mask) {
  return _mm256_maskz_loadu_epi16(static_cast<__mmask16>(mask), from);
}
inline __m256i load_16(const float* from, uint32_t mask) {
  return (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from));
}

// Elements of `low` and `high` beside each other.
inline __m512i pairs_of(__m256i low, __m256i high) {
  return _mm512_or_si512(
      _mm512_maskz_cvtepu16_epi32(kAll, low),
      _mm512_maskz_slli_epi32(kAll, _mm512_maskz_cvtepu16_epi32(kAll, high), 16));
}

// A quarter of four lines, four lines apart.
inline __m512i quarters(const BFloat16* from, int64_t line) {
  const auto quarter = [&](int64_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 4 * i * line));
  };
  __m512i four = _mm512_castsi128_si512(quarter(0));
  four = _mm512_maskz_inserti32x4(kAll, four, quarter(1), 1);
  four = _mm512_maskz_inserti32x4(kAll, four, quarter(2), 2);
  return _mm512_maskz_inserti32x4(kAll, four, quarter(3), 3);
}

// Sixteen lines of sixteen pairs, `line` elements apart, become sixteen rows of a pair of each.
// Loads place the lines, so that half of the shuffles of a transposition are left.
inline void turn(const BFloat16* from, int64_t line, BFloat16* to) {
  for (int64_t part = 0; part < 4; ++part, from += 8, to += 4 * kGroup) {
    const __m512i first = quarters(from, line), second = quarters(from + line, line);
    const __m512i third = quarters(from + 2 * line, line), fourth = quarters(from + 3 * line, line);
    const __m512i low = _mm512_maskz_unpacklo_epi32(kAll, first, second);
    const __m512i high = _mm512_maskz_unpackhi_epi32(kAll, first, second);
    const __m512i lower = _mm512_maskz_unpacklo_epi32(kAll, third, fourth);
    const __m512i higher = _mm512_maskz_unpackhi_epi32(kAll, third, fourth);
    _mm512_storeu_si512(to, _mm512_maskz_unpacklo_epi64(kAllHalf, low, lower));
    _mm512_storeu_si512(to + kGroup, _mm512_maskz_unpackhi_epi64(kAllHalf, low, lower));
    _mm512_storeu_si512(to + 2 * kGroup, _mm512_maskz_unpacklo_epi64(kAllHalf, high, higher));
    _mm512_storeu_si512(to + 3 * kGroup, _mm512_maskz_unpackhi_epi64(kAllHalf, high, higher));
  }
}

enum class Side { kA, kB };

// One tile of lines whose elements lie beside each other: `lines` and `depth` may be more than it
// holds.
template <Side side, typename In>
inline void pack_lines(const In* from, int64_t line, int64_t lines, int64_t depth, BFloat16* to) {
  if constexpr (side == Side::kB && std::is_same_v<In, BFloat16>) {
    if (lines >= kLines && depth >= kGroup) return turn(from, line, to);
  }
  alignas(64) BFloat16 beside[side == Side::kB ? kTileSize : 1];
  BFloat16* const rows = side == Side::kB ? beside : to;
  const uint32_t mask = first_bits(depth, kGroup);
  for (int64_t i = 0; i < kLines; ++i) {
    const __m512i row = i < lines ? load_32(from + i * line, mask) : _mm512_setzero_si512();
    _mm512_storeu_si512(rows + i * kGroup, row);
  }
  if constexpr (side == Side::kB) turn(rows, kGroup, to);
}

// Two tiles beside each other of lines that lie beside each other, elements of a line `step` apart:
// a cache line holds a part of both. The second is left out where `second` is null.
template <Side side, typename In>
inline void pack_across(const In* from, int64_t step, int64_t lines, int64_t depth, BFloat16* first,
                        BFloat16* second) {
  alignas(64) BFloat16 beside[side == Side::kA ? 2 * kTileSize : 1];
  BFloat16* const rows = side == Side::kA ? beside : first;
  BFloat16* const other_rows =
      side == Side::kA ? beside + (second != nullptr ? kTileSize : 0) : second;
  const uint32_t mask = first_bits(lines, kLines), other_mask = first_bits(lines - kLines, kLines);
  for (int64_t k = 0; k < kGroup; k += 2) {
    const bool low = k < depth, high = k + 1 < depth;
    const auto pair = [&](int64_t at, uint32_t ones) {
      return pairs_of(low ? load_16(from + k * step + at, ones) : _mm256_setzero_si256(),
                      high ? load_16(from + (k + 1) * step + at, ones) : _mm256_setzero_si256());
    };
    _mm512_storeu_si512(rows + k / 2 * kGroup, pair(0, mask));
    if (second != nullptr) {
      _mm512_storeu_si512(other_rows + k / 2 * kGroup, pair(kLines, other_mask));
    }
  }
  if constexpr (side == Side::kA) {
    turn(rows, kGroup, first);
    if (second != nullptr) turn(other_rows, kGroup, second);
  }
}

// All tiles of `lines` lines, the ones of sixteen lines after each other. Element (i, k) is
// from[i * line + k * step], and one of the two is 1.
template <Side side, typename In>
void pack(const In* from, int64_t line, int64_t step, int64_t lines, int64_t depth, BFloat16* to) {
  const int64_t groups = (depth + kGroup - 1) / kGroup;
  if (step == 1) {
    for (int64_t i = 0; i < lines; i += kLines) {
      for (int64_t g = 0; g < groups; ++g, to += kTileSize) {
        pack_lines<side>(from + i * line + g * kGroup, line, lines - i, depth - g * kGroup, to);
      }
    }
    return;
  }
  const int64_t panel = groups * kTileSize;
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t i = 0; i < lines; i += 2 * kLines) {
      BFloat16* const first = to + i / kLines * panel + g * kTileSize;
      pack_across<side>(from + g * kGroup * step + i, step, lines - i, depth - g * kGroup, first,
                        lines - i > kLines ? first + panel : nullptr);
    }
  }
}

}  // namespace
}  // namespace tessera::kernels::cpu::levels
