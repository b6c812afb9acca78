// Vectors of the arithmetic type, as wide as the registers of a level, and sums over their lanes in
// a fixed order. What is written with them has the same bits in every loop that it is inlined into.
// Each source that includes this has functions of its own, compiled for its level: hence the
// unnamed namespace.
#pragma once

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/dtype.h"

namespace tessera::kernels::cpu::levels {
namespace {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

// What elements of T are computed in.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// One element. Where a level has them, the conversions of base/dtype.h are not to be compiled here.
template <typename T>
inline Wide<T> widened(T x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  } else if constexpr (std::is_same_v<T, Float16>) {
#if defined(__F16C__)
    return _cvtsh_ss(x.bits);
#else
    return static_cast<float>(x);
#endif
  } else {
    return x;
  }
}

template <typename A>
inline constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(A));

template <typename A, int width>
struct VectorOf {
  typedef A type __attribute__((vector_size(sizeof(A) * width)));
};
template <typename A, int width = kWidth<A>>
using Vector = typename VectorOf<A, width>::type;

// `count` elements from `from` on, then zeros; all of them where it is left out.
template <typename T>
inline Vector<Wide<T>> load(const T* from) {
  using A = Wide<T>;
  constexpr int kLoaded = kWidth<A>;
  if constexpr (std::is_same_v<T, A>) {
    Vector<A> v;
    std::memcpy(&v, from, sizeof v);
    return v;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    Vector<uint16_t, kLoaded> bits;
    std::memcpy(&bits, from, sizeof bits);
    const auto wide = __builtin_convertvector(bits, Vector<uint32_t, kLoaded>) << 16;
    Vector<A> v;
    std::memcpy(&v, &wide, sizeof v);
    return v;
  } else {
    Vector<A> v;
#if defined(__F16C__)
    for (int i = 0; i < kLoaded; i += 8) {
      const __m256 eight =
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
      std::memcpy(reinterpret_cast<std::byte*>(&v) + static_cast<size_t>(i) * sizeof(A), &eight,
                  sizeof eight);
    }
#else
    for (int i = 0; i < kLoaded; ++i) v[i] = widened(from[i]);
#endif
    return v;
  }
}
template <typename T>
inline Vector<Wide<T>> load(const T* from, int64_t count) {
  using A = Wide<T>;
  A values[kWidth<A>] = {};
  for (int64_t i = 0; i < count; ++i) values[i] = widened(from[i]);
  return load(values);
}

template <typename A>
inline void store(A* to, const Vector<A>& v) {
  std::memcpy(to, &v, sizeof v);
}

template <typename A>
inline Vector<A> broadcast(A value) {
  return value - Vector<A>{};
}

// Halves are added until one lane is left.
template <typename A, int width>
inline A sum_lanes(const Vector<A, width>& v) {
  if constexpr (width == 1) {
    return v[0];
  } else {
    Vector<A, width / 2> low, high;
    std::memcpy(&low, &v, sizeof low);
    std::memcpy(&high, reinterpret_cast<const std::byte*>(&v) + sizeof low, sizeof high);
    return sum_lanes<A, width / 2>(low + high);
  }
}

// Halves of every group of 2 * half lanes, the first of each (at = 0) or the second (at = half): of
// two vectors group beside group, of one vector all groups together at its start.
template <typename A, int half, int at, size_t... lane>
inline Vector<A> take_halves(const Vector<A>& a, const Vector<A>& b,
                             std::index_sequence<lane...> /*lanes*/) {
  return __builtin_shufflevector(
      a, b,
      (static_cast<int>(lane) / half % 2 * kWidth<A> +
       static_cast<int>(lane) / (2 * half) * (2 * half) + static_cast<int>(lane) % half + at)...);
}
template <typename A, int half, int at, size_t... lane>
inline Vector<A> take_halves(const Vector<A>& a, std::index_sequence<lane...> /*lanes*/) {
  return __builtin_shufflevector(
      a, a,
      ((static_cast<int>(lane) / half * (2 * half) + static_cast<int>(lane) % half + at) %
       kWidth<A>)...);
}

// Groups of `group` lanes of `count` vectors are halved, two vectors into one where there are two,
// until each lane is a sum: v[0] then begins with those of the vectors, in their order.
template <typename A, int group, int count>
inline void fold_lanes(Vector<A>* v) {
  if constexpr (group > 1) {
    constexpr int kHalf = group / 2;
    constexpr int kLeft = count > 1 ? count / 2 : 1;
    constexpr auto kAll = std::make_index_sequence<static_cast<size_t>(kWidth<A>)>();
    if constexpr (count == 1) {
      v[0] = take_halves<A, kHalf, 0>(v[0], kAll) + take_halves<A, kHalf, kHalf>(v[0], kAll);
    } else {
      for (int i = 0; i < kLeft; ++i) {
        v[i] = take_halves<A, kHalf, 0>(v[i], v[i + kLeft], kAll) +
               take_halves<A, kHalf, kHalf>(v[i], v[i + kLeft], kAll);
      }
    }
    fold_lanes<A, kHalf, kLeft>(v);
  }
}

// The sums of the lanes of `count` vectors, the bits of each those of sum_lanes: two vectors whose
// halves are added fit one, so that all together take a third of the work.
template <typename A, int count>
inline void sum_lanes_of(const Vector<A>* vectors, A* sums) {
  constexpr int kLanes = kWidth<A>;
  if constexpr (count == 1) {
    *sums = sum_lanes<A, kLanes>(*vectors);
  } else if constexpr (count > kLanes || (count & (count - 1)) != 0) {
    constexpr int kFirst = count > kLanes ? kLanes : 1 << (31 - __builtin_clz(count));
    sum_lanes_of<A, kFirst>(vectors, sums);
    sum_lanes_of<A, count - kFirst>(vectors + kFirst, sums + kFirst);
  } else {
    Vector<A> v[count];
    for (int i = 0; i < count; ++i) v[i] = vectors[i];
    fold_lanes<A, kLanes, count>(v);
    std::memcpy(sums, &v[0], count * sizeof(A));
  }
}

// How products are added up: kStep elements of both operands at once, as inputs and weights are
// kept for that.
template <typename W>
struct Products {
  using A = Wide<W>;
  using Input = A;
  using Operand = Vector<A>;
  static constexpr int kStep = kWidth<A>;

  template <typename T>
  static Operand operand(const T* from) {
    return load(from);
  }
  template <typename T>
  static Operand operand(const T* from, int64_t count) {
    return load(from, count);
  }
  static void add(Vector<A>& sum, const Operand& x, const Operand& w) { sum += x * w; }
};

#if defined(__AVX512BF16__)
// Neighbours in pairs, as they are stored: twice as many at once, and nothing is widened.
template <>
struct Products<BFloat16> {
  using A = float;
  using Input = BFloat16;
  using Operand = __m512bh;
  static constexpr int kStep = 2 * kWidth<float>;

  static Operand operand(const BFloat16* from) {
    Operand values;
    std::memcpy(&values, from, sizeof values);
    return values;
  }
  static Operand operand(const BFloat16* from, int64_t count) {
    uint16_t values[kStep] = {};
    for (int64_t i = 0; i < count; ++i) values[i] = from[i].bits;
    Operand filled;
    std::memcpy(&filled, values, sizeof filled);
    return filled;
  }
  static void add(Vector<float>& sum, const Operand& x, const Operand& w) {
    sum = _mm512_dpbf16_ps(sum, x, w);
  }
};
#endif

}  // namespace
}  // namespace tessera::kernels::cpu::levels
