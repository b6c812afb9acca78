// Vectors of the arithmetic type, as wide as the CPU's registers, and sums over their lanes in a
// fixed order. What is written with them has the same bits in every loop that it is inlined into.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/numeric.h"

namespace tessera::kernels::cpu {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

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
inline Vector<Acc<T>> load(const T* from) {
  using A = Acc<T>;
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
    A values[kLoaded];
    for (int i = 0; i < kLoaded; ++i) values[i] = widen(from[i]);
    return load(values);
  }
}
template <typename T>
inline Vector<Acc<T>> load(const T* from, int64_t count) {
  using A = Acc<T>;
  A values[kWidth<A>] = {};
  for (int64_t i = 0; i < count; ++i) values[i] = widen(from[i]);
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

}  // namespace tessera::kernels::cpu
