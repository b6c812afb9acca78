// Arithmetic shared by the CPU kernels: storage <-> arithmetic type, exp, and sums over lanes.
//
// The compiler may not reorder floating-point sums (NaN and bits must survive), so reductions name
// their lanes here; everything element-wise is written as plain loops that it vectorises itself.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/dtype.h"

namespace tessera::kernels::cpu {

// The type that arithmetic on storage type T is done in.
template <typename T>
using Acc = std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>, float, T>;

// Storage types that are narrower than what they are computed in.
template <typename T>
inline constexpr bool kIsNarrow = !std::is_same_v<T, Acc<T>>;

template <typename T>
inline Acc<T> widen(T value) {
  return static_cast<Acc<T>>(value);
}

template <typename T>
inline T narrow(Acc<T> value) {
  return static_cast<T>(value);
}

// exp within about 1e-7 (f32). Results below 2^-126 are zero, -inf gives zero, NaN stays NaN.
[[gnu::always_inline]] inline float fast_exp(float x) {
  constexpr float kLog2e = 1.44269504F;
  constexpr float kLn2High = 0.693145752F;  // 0x1.62e4p-1: k * kLn2High is exact
  constexpr float kLn2Low = 1.42860677e-06F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  float clamped = x < -87.5F ? -87.5F : x;
  clamped = clamped > 89.0F ? 89.0F : clamped;
  const float shifted = clamped * kLog2e + kRound;
  const float k = shifted - kRound;
  const float r = (clamped - k * kLn2High) - k * kLn2Low;
  float p = 0.00139263261F;
  p = p * r + 0.00836329255F;
  p = p * r + 0.0416665524F;
  p = p * r + 0.166665763F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  // 2^(k-1), and 2 in the last product: k = 128 does not fit an exponent. k = -126 gives zero.
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 126U) << 23;
  return (p * 2.0F) * std::bit_cast<float>(exponent);
}

inline double fast_exp(double x) { return std::exp(x); }

// A fixed number of partial results, combined in a fixed order, so that the value of a reduction
// depends on nothing but its input.
inline constexpr int kLanes = 32;

template <typename A, typename Term>
inline A lane_sum(int64_t count, const Term& term) {
  A lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (int lane = 0; i + lane < count; ++lane) lanes[lane] += term(i + lane);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// The largest term, or -inf for none. NaN terms are skipped.
template <typename A, typename Term>
inline A lane_max(int64_t count, const Term& term) {
  A lanes[kLanes];
  for (A& lane : lanes) lane = -std::numeric_limits<A>::infinity();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const A value = term(i + lane);
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
    }
  }
  for (; i < count; ++i) {
    const A value = term(i);
    lanes[0] = value > lanes[0] ? value : lanes[0];
  }
  for (int lane = 1; lane < kLanes; ++lane) {
    lanes[0] = lanes[lane] > lanes[0] ? lanes[lane] : lanes[0];
  }
  return lanes[0];
}

}  // namespace tessera::kernels::cpu
