#include "comm/reduce.h"

#include <immintrin.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "comm/copy.h"
#include "comm/tree_sum.h"

namespace tessera {
namespace {

constexpr uintptr_t kAliasPeriod = uintptr_t{1} << 28;
constexpr uintptr_t kLineBytes = 64;
constexpr int64_t kVectorBytes = 32;
constexpr int64_t kStepVectors = 4;     // the result of a step stays in registers
constexpr int64_t kBlockVectors = 128;  // 4 KiB: the result of a block stays in the closest cache

// One vector of elements of T as it is computed with (Wide) and as it is stored (Packed).
template <typename T>
struct Lanes {
  using Scalar = T;
  using Wide [[gnu::vector_size(kVectorBytes)]] = T;
  using Packed = Wide;
  static void load(const T* from, Wide& to) { std::memcpy(&to, from, sizeof(to)); }
  static void pack(const Wide& from, Packed& to) { to = from; }
};

template <>
struct Lanes<BFloat16> {
  using Scalar = float;
  using Wide [[gnu::vector_size(kVectorBytes)]] = float;
  using Bits [[gnu::vector_size(kVectorBytes)]] = uint32_t;
  using Packed [[gnu::vector_size(kVectorBytes / 2)]] = uint16_t;
  static void load(const BFloat16* from, Wide& to) {
    Packed bits;
    std::memcpy(&bits, from, sizeof(bits));
    const Bits wide = __builtin_convertvector(bits, Bits) << 16;
    std::memcpy(&to, &wide, sizeof(to));
  }
  // As BFloat16(float), lane by lane.
  static void pack(const Wide& from, Packed& to) {
    Bits u;
    std::memcpy(&u, &from, sizeof(u));
    const Bits rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
    const Bits quiet_nan = (u >> 16) | 0x40U;
    to = __builtin_convertvector((u & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded, Packed);
  }
};

template <>
struct Lanes<Float16> {
  using Scalar = float;
  using Wide [[gnu::vector_size(kVectorBytes)]] = float;
  using Packed [[gnu::vector_size(kVectorBytes / 2)]] = uint16_t;
#ifdef __F16C__
  static void load(const Float16* from, Wide& to) {
    const __m256 wide = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    std::memcpy(&to, &wide, sizeof(to));
  }
  static void pack(const Wide& from, Packed& to) {
    __m256 wide;
    std::memcpy(&wide, &from, sizeof(wide));
    const __m128i packed = _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    std::memcpy(&to, &packed, sizeof(to));
  }
#else
  static void load(const Float16* from, Wide& to) {
    for (int i = 0; i < 8; ++i) to[i] = static_cast<float>(from[i]);
  }
  static void pack(const Wide& from, Packed& to) {
    for (int i = 0; i < 8; ++i) to[i] = Float16(from[i]).bits;
  }
#endif
};

// How two values, scalars or vectors, become one. The first of two equal ones stays, and a NaN on
// either side.
struct Sum {
  template <typename V>
  static void apply(V& a, const V& b) {
    a += b;
  }
};
struct Max {
  template <typename V>
  static void apply(V& a, const V& b) {
    a = ((a >= b) | (a != a)) ? a : b;
  }
};
struct Min {
  template <typename V>
  static void apply(V& a, const V& b) {
    a = ((a <= b) | (a != a)) ? a : b;
  }
};

bool aliased(const void* a, const void* b) {
  if (a == b) return false;
  const auto line = [](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % kAliasPeriod / kLineBytes;
  };
  return line(a) == line(b);
}

// `to` is aligned to the vector where it is streamed.
template <bool kStream, typename Packed>
void store(std::byte* to, const Packed& packed) {
  if constexpr (!kStream) {
    std::memcpy(to, &packed, sizeof(packed));
  } else {
    for (size_t at = 0; at < sizeof(packed); at += sizeof(__m128i)) {
      __m128i half;
      std::memcpy(&half, reinterpret_cast<const std::byte*>(&packed) + at, sizeof(half));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), half);
    }
  }
}

// Reduces whole blocks of kVectors vectors from element `at` on; returns where it stopped.
template <typename T, typename Op, int64_t kVectors, bool kStream = false>
int64_t reduce_blocks(std::span<const void* const> sources, std::span<void* const> targets,
                      int64_t at, int64_t count, int mean_over) {
  using Wide = typename Lanes<T>::Wide;
  using Packed = typename Lanes<T>::Packed;
  using Scalar = typename Lanes<T>::Scalar;
  constexpr int64_t kLanes = sizeof(Packed) / sizeof(T);
  for (; at + kVectors * kLanes <= count; at += kVectors * kLanes) {
    Wide result[kVectors];
    const T* first = static_cast<const T*>(sources[0]) + at;
#pragma GCC unroll kStepVectors
    for (int64_t v = 0; v < kVectors; ++v) Lanes<T>::load(first + v * kLanes, result[v]);
    for (const void* source : sources.subspan(1)) {
      const T* x = static_cast<const T*>(source) + at;
#pragma GCC unroll kStepVectors
      for (int64_t v = 0; v < kVectors; ++v) {
        Wide term;
        Lanes<T>::load(x + v * kLanes, term);
        Op::apply(result[v], term);
      }
    }
    if constexpr (std::is_floating_point_v<Scalar>) {
      if (mean_over > 1) {
        for (int64_t v = 0; v < kVectors; ++v) result[v] /= static_cast<Scalar>(mean_over);
      }
    }
    Packed packed[kVectors];
#pragma GCC unroll kStepVectors
    for (int64_t v = 0; v < kVectors; ++v) Lanes<T>::pack(result[v], packed[v]);
    for (void* target : targets) {
      std::byte* y = static_cast<std::byte*>(target) + at * static_cast<int64_t>(sizeof(T));
#pragma GCC unroll kStepVectors
      for (int64_t v = 0; v < kVectors; ++v) {
        store<kStream>(y + v * static_cast<int64_t>(sizeof(Packed)), packed[v]);
      }
    }
  }
  return at;
}

// The rest, element by element, with the same arithmetic.
template <typename T, typename Op>
void reduce_elements(std::span<const void* const> sources, std::span<void* const> targets,
                     int64_t at, int64_t count, int mean_over) {
  using Scalar = typename Lanes<T>::Scalar;
  for (; at < count; ++at) {
    Scalar result = static_cast<Scalar>(static_cast<const T*>(sources[0])[at]);
    for (const void* source : sources.subspan(1)) {
      const Scalar term = static_cast<Scalar>(static_cast<const T*>(source)[at]);
      Op::apply(result, term);
    }
    if constexpr (std::is_floating_point_v<Scalar>) {
      if (mean_over > 1) result /= static_cast<Scalar>(mean_over);
    }
    for (void* target : targets) static_cast<T*>(target)[at] = static_cast<T>(result);
  }
}

template <typename T, typename Op>
void reduce_typed(ReduceKernel kernel, std::span<const void* const> sources,
                  std::span<void* const> targets, int64_t count, int mean_over) {
  int64_t at = 0;
  if (kernel == ReduceKernel::kBlocked) {
    at = reduce_blocks<T, Op, kBlockVectors>(sources, targets, at, count, mean_over);
  }
  if (kernel == ReduceKernel::kStreamed) {
    at = reduce_blocks<T, Op, kStepVectors, /*kStream=*/true>(sources, targets, at, count,
                                                              mean_over);
    _mm_sfence();
  }
  at = reduce_blocks<T, Op, kStepVectors>(sources, targets, at, count, mean_over);
  reduce_elements<T, Op>(sources, targets, at, count, mean_over);
}

// Integers add without sign, so that they wrap, and compare with it.
template <typename T>
void reduce_by_op(ReduceKernel kernel, ReduceOp op, std::span<const void* const> sources,
                  std::span<void* const> targets, int64_t count, int mean_over) {
  if (op == ReduceOp::kMax) return reduce_typed<T, Max>(kernel, sources, targets, count, 0);
  if (op == ReduceOp::kMin) return reduce_typed<T, Min>(kernel, sources, targets, count, 0);
  const int divisor = op == ReduceOp::kMean ? mean_over : 0;
  if constexpr (std::is_integral_v<T>) {
    TESSERA_CHECK(divisor <= 1, "mean of integers");
    reduce_typed<std::make_unsigned_t<T>, Sum>(kernel, sources, targets, count, 0);
  } else {
    reduce_typed<T, Sum>(kernel, sources, targets, count, divisor);
  }
}

}  // namespace

ReduceKernel choose_reduce_kernel(std::span<const void* const> sources,
                                  std::span<void* const> targets, int64_t result_bytes) {
  bool streamed = result_bytes >= kStreamedBytes;
  for (size_t i = 0; i < sources.size(); ++i) {
    for (size_t j = i + 1; j < sources.size(); ++j) {
      if (aliased(sources[i], sources[j])) return ReduceKernel::kBlocked;
    }
    for (const void* target : targets) {
      if (aliased(sources[i], target)) return ReduceKernel::kBlocked;
      const bool on_line = reinterpret_cast<uintptr_t>(target) % kLineBytes == 0;
      streamed = streamed && on_line && target != sources[i];
    }
  }
  return streamed ? ReduceKernel::kStreamed : ReduceKernel::kInterleaved;
}

void reduce_in_order(ReduceKernel kernel, ReduceOp op, DType dtype,
                     std::span<const void* const> sources, std::span<void* const> targets,
                     int64_t count, int mean_over) {
  if (count == 0) return;
  if (sources.size() == 1 && !(op == ReduceOp::kMean && mean_over > 1)) {
    for (void* target : targets) {
      if (target == sources[0]) continue;
      std::memcpy(target, sources[0], static_cast<size_t>(count * size_bytes(dtype)));
    }
    return;
  }
  if (op == ReduceOp::kTreeSum) return sum_along_tree(dtype, sources, targets, count);
  if (op == ReduceOp::kTwinSum) return sum_twins(dtype, sources, targets, count);
  switch (dtype) {
    case DType::kF64:
      return reduce_by_op<double>(kernel, op, sources, targets, count, mean_over);
    case DType::kF32:
      return reduce_by_op<float>(kernel, op, sources, targets, count, mean_over);
    case DType::kBF16:
      return reduce_by_op<BFloat16>(kernel, op, sources, targets, count, mean_over);
    case DType::kF16:
      return reduce_by_op<Float16>(kernel, op, sources, targets, count, mean_over);
    case DType::kI32:
      return reduce_by_op<int32_t>(kernel, op, sources, targets, count, mean_over);
    case DType::kI64:
      return reduce_by_op<int64_t>(kernel, op, sources, targets, count, mean_over);
    case DType::kU8:
      return reduce_by_op<uint8_t>(kernel, op, sources, targets, count, mean_over);
  }
}

void reduce_in_order(ReduceOp op, DType dtype, std::span<const void* const> sources,
                     std::span<void* const> targets, int64_t count, int mean_over) {
  reduce_in_order(choose_reduce_kernel(sources, targets), op, dtype, sources, targets, count,
                  mean_over);
}

}  // namespace tessera
