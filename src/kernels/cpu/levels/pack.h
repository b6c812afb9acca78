// Panels of operands: `width` lines (rows of a, columns of b) beside each other, one element of
// each after the other, so that a tile reads memory in order. Lines that are missing are zeros.
// Level is a type of the source that includes this: no instance is shared between sources.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "base/dtype.h"

namespace tessera::kernels::cpu::levels {

// As many elements along a line as are turned at once: a square of registers.
template <typename T>
inline constexpr int kSquare = 32 / static_cast<int>(sizeof(T));

template <typename Level>
struct Registers {
  static __m256 load(const float* from) { return _mm256_loadu_ps(from); }
  static __m256d load(const double* from) { return _mm256_loadu_pd(from); }
  static __m256 load(const BFloat16* from) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static __m256 load(const Float16* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  // Half of that.
  static __m128 load_half(const float* from) { return _mm_loadu_ps(from); }
  static __m128d load_half(const double* from) { return _mm_loadu_pd(from); }
  static __m128 load_half(const BFloat16* from) {
    const __m128i bits = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    return _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(bits), 16));
  }
  static __m128 load_half(const Float16* from) {
    return _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  }
  // Four pairs: an element of `first` beside the one of `second`.
  static void store_pairs(const BFloat16* first, const BFloat16* second, float* to) {
    const __m128i a = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(first));
    const __m128i b = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(second));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi16(a, b));
  }
  static void store(float* to, __m256 v) { _mm256_storeu_ps(to, v); }
  static void store(double* to, __m256d v) { _mm256_storeu_pd(to, v); }
  static void store(float* to, __m128 v) { _mm_storeu_ps(to, v); }
  static void store(double* to, __m128d v) { _mm_storeu_pd(to, v); }
  // The first `count` lanes: 2, 4, 6 or 8 of f32, 2 or 4 of f64.
  template <int count>
  static void store_first(float* to, __m256 v) {
    if constexpr (count == 8) {
      _mm256_storeu_ps(to, v);
    } else {
      const __m128 low = _mm256_castps256_ps128(v);
      if constexpr (count == 2) _mm_storel_pi(reinterpret_cast<__m64*>(to), low);
      if constexpr (count >= 4) _mm_storeu_ps(to, low);
      if constexpr (count == 6) {
        _mm_storel_pi(reinterpret_cast<__m64*>(to + 4), _mm256_extractf128_ps(v, 1));
      }
    }
  }
  template <int count>
  static void store_first(double* to, __m256d v) {
    if constexpr (count == 4) _mm256_storeu_pd(to, v);
    if constexpr (count == 2) _mm_storeu_pd(to, _mm256_castpd256_pd128(v));
  }

  static void transpose(__m256 (&r)[8]) {
    __m256 t[8], u[8];
    for (int i = 0; i < 4; ++i) {
      t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
      t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int half = 0; half < 8; half += 4) {
      u[half] = _mm256_shuffle_ps(t[half], t[half + 2], 0x44);
      u[half + 1] = _mm256_shuffle_ps(t[half], t[half + 2], 0xee);
      u[half + 2] = _mm256_shuffle_ps(t[half + 1], t[half + 3], 0x44);
      u[half + 3] = _mm256_shuffle_ps(t[half + 1], t[half + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
      r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
  }
  static void transpose(__m256d (&r)[4]) {
    const __m256d t0 = _mm256_unpacklo_pd(r[0], r[1]), t1 = _mm256_unpackhi_pd(r[0], r[1]);
    const __m256d t2 = _mm256_unpacklo_pd(r[2], r[3]), t3 = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(t0, t2, 0x20);
    r[1] = _mm256_permute2f128_pd(t1, t3, 0x20);
    r[2] = _mm256_permute2f128_pd(t0, t2, 0x31);
    r[3] = _mm256_permute2f128_pd(t1, t3, 0x31);
  }
};

// With `pairs`, a unit is two neighbours along k of bf16, as they are stored; else one element,
// widened.
template <typename Level, bool pairs = false>
struct Packing {
  static constexpr int64_t kUnit = pairs ? 2 : 1;

  // One unit, of which `left` elements are there. Narrow ones go through a register: the
  // conversions of base/dtype.h are not to be compiled here.
  static float unit(const float* x, int64_t /*step*/, int64_t /*left*/) { return *x; }
  static double unit(const double* x, int64_t /*step*/, int64_t /*left*/) { return *x; }
  static float unit(const Float16* x, int64_t /*step*/, int64_t /*left*/) {
    return _cvtsh_ss(x->bits);
  }
  static float unit(const BFloat16* x, int64_t step, int64_t left) {
    uint32_t bits = static_cast<uint32_t>(x->bits) << 16;
    if constexpr (pairs) {
      bits = x->bits;
      if (left > 1) bits |= static_cast<uint32_t>(x[step].bits) << 16;
    }
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  // A register of units along a line.
  template <typename In>
  static auto load(const In* from) {
    if constexpr (pairs) {
      return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
    } else {
      return Registers<Level>::load(from);
    }
  }

  // Element (i, k) of a panel's lines is from[i * line + k]: squares are turned.
  template <int width, typename In, typename T>
  static void turn_lines(const In* from, int64_t line, int64_t lines, int64_t depth, T* to) {
    constexpr int64_t kSide = kSquare<T> * kUnit;
    int64_t k = 0;
    for (; k + kSide <= depth; k += kSide, to += kSquare<T> * width) {
      turn_squares<width, 0>(from + k, line, lines, to);
    }
    for (; k < depth; k += kUnit, to += width) {
      for (int64_t i = 0; i < width; ++i) {
        to[i] = i < lines ? unit(from + i * line + k, 1, depth - k) : T{0};
      }
    }
  }

  // The squares of lines [first, width) at one place along them.
  template <int width, int first, typename In, typename T>
  static void turn_squares(const In* from, int64_t line, int64_t lines, T* to) {
    constexpr int kSide = kSquare<T>;
    constexpr int kCount = width - first < kSide ? width - first : kSide;
    using Register = decltype(load(from));
    Register r[kSide];
    for (int i = 0; i < kSide; ++i) {
      r[i] = i < kCount && first + i < lines ? load(from + (first + i) * line) : Register{};
    }
    Registers<Level>::transpose(r);
    for (int i = 0; i < kSide; ++i) {
      Registers<Level>::template store_first<kCount>(to + i * width + first, r[i]);
    }
    if constexpr (first + kSide < width) {
      turn_squares<width, first + kSide>(from, line, lines, to);
    }
  }

  // What is copied when all lines have come so far: rows lie apart, which no hardware foresees.
  static constexpr int64_t kAtOnce = 8;
  template <int width, typename In>
  static void fetch(const In* from, int64_t step) {
    const auto next =
        reinterpret_cast<uintptr_t>(from) + static_cast<uintptr_t>(kAtOnce * step) * sizeof(In);
    for (uintptr_t at = 0; at < width * sizeof(In); at += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(next + at), _MM_HINT_T0);
    }
  }

  // Element (i, k) is from[k * step + i]: as it is to lie.
  template <int width, typename In, typename T>
  static void copy_lines(const In* from, int64_t step, int64_t lines, int64_t depth, T* to) {
    for (int64_t k = 0; k < depth; k += kUnit, from += kUnit * step, to += width) {
      if (lines == width && k + kUnit <= depth) {
        fetch<width>(from, step);
        copy_units<width, 0>(from, step, to);
      } else {
        for (int64_t i = 0; i < width; ++i) {
          to[i] = i < lines ? unit(from + i, step, depth - k) : T{0};
        }
      }
    }
  }

  template <int width, int first, typename In, typename T>
  static void copy_units(const In* from, int64_t step, T* to) {
    constexpr int kSide = kSquare<T>;
    if constexpr (width - first >= kSide) {
      if constexpr (pairs) {
        Registers<Level>::store_pairs(from + first, from + step + first, to + first);
        Registers<Level>::store_pairs(from + first + 4, from + step + first + 4, to + first + 4);
      } else {
        Registers<Level>::store(to + first, Registers<Level>::load(from + first));
      }
      copy_units<width, first + kSide>(from, step, to);
    } else if constexpr (width - first >= kSide / 2) {
      if constexpr (pairs) {
        Registers<Level>::store_pairs(from + first, from + step + first, to + first);
      } else {
        Registers<Level>::store(to + first, Registers<Level>::load_half(from + first));
      }
      copy_units<width, first + kSide / 2>(from, step, to);
    } else if constexpr (width > first) {
      to[first] = unit(from + first, step, kUnit);
      copy_units<width, first + 1>(from, step, to);
    }
  }

  // All panels of `lines` lines, one after the other. Lines are `line` apart, elements of one
  // `step`. Lines that lie beside each other are read a few elements of all of them at a time:
  // their rows often lie a power of two apart, where a cache holds few of them.
  template <int width, typename In, typename T>
  static void panels(const In* from, int64_t line, int64_t step, int64_t lines, int64_t depth,
                     T* to) {
    const int64_t units = (depth + kUnit - 1) / kUnit;
    const int64_t part = line == 1 ? kAtOnce : depth;
    for (int64_t k = 0; k < depth; k += part) {
      const int64_t length = depth - k < part ? depth - k : part;
      for (int64_t i = 0; i < lines; i += width) {
        const int64_t count = lines - i < width ? lines - i : width;
        T* const panel = to + i * units + k / kUnit * width;
        if (line == 1) {
          copy_lines<width>(from + k * step + i, step, count, length, panel);
        } else {
          turn_lines<width>(from + i * line, line, count, length, panel);
        }
      }
    }
  }
};

}  // namespace tessera::kernels::cpu::levels
