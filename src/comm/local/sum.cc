#include "comm/local/sum.h"

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace tessera {
namespace {

constexpr uintptr_t kAliasPeriod = uintptr_t{1} << 28;
constexpr uintptr_t kLineBytes = 64;
constexpr int64_t kVectorBytes = 32;
constexpr int64_t kStepVectors = 4;     // the sum of a step stays in registers
constexpr int64_t kBlockVectors = 128;  // 4 KiB: the sum of a block stays in the first-level cache

// One vector of elements of T as it is added (Sum) and as it is stored (Packed).
template <typename T>
struct Lanes {
  using Sum [[gnu::vector_size(kVectorBytes)]] = T;
  using Packed = Sum;
  static void load(const T* from, Sum& to) { std::memcpy(&to, from, sizeof(to)); }
  static void pack(const Sum& from, Packed& to) { to = from; }
};

template <>
struct Lanes<BFloat16> {
  using Sum [[gnu::vector_size(kVectorBytes)]] = float;
  using Wide [[gnu::vector_size(kVectorBytes)]] = uint32_t;
  using Packed [[gnu::vector_size(kVectorBytes / 2)]] = uint16_t;
  static void load(const BFloat16* from, Sum& to) {
    Packed bits;
    std::memcpy(&bits, from, sizeof(bits));
    const Wide wide = __builtin_convertvector(bits, Wide) << 16;
    std::memcpy(&to, &wide, sizeof(to));
  }
  // As BFloat16(float), lane by lane.
  static void pack(const Sum& from, Packed& to) {
    Wide u;
    std::memcpy(&u, &from, sizeof(u));
    const Wide rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
    const Wide quiet_nan = (u >> 16) | 0x40U;
    to = __builtin_convertvector((u & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded, Packed);
  }
};

bool aliased(const void* a, const void* b) {
  if (a == b) return false;
  const auto line = [](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % kAliasPeriod / kLineBytes;
  };
  return line(a) == line(b);
}

// Sums whole blocks of kVectors vectors from element `at` on; returns where it stopped.
template <typename T, int64_t kVectors>
int64_t sum_blocks(std::span<const void* const> sources, std::span<void* const> targets, int64_t at,
                   int64_t count) {
  using Sum = typename Lanes<T>::Sum;
  using Packed = typename Lanes<T>::Packed;
  constexpr int64_t kLanes = sizeof(Packed) / sizeof(T);
  for (; at + kVectors * kLanes <= count; at += kVectors * kLanes) {
    Sum sum[kVectors];
    const T* first = static_cast<const T*>(sources[0]) + at;
#pragma GCC unroll kStepVectors
    for (int64_t v = 0; v < kVectors; ++v) Lanes<T>::load(first + v * kLanes, sum[v]);
    for (const void* source : sources.subspan(1)) {
      const T* x = static_cast<const T*>(source) + at;
#pragma GCC unroll kStepVectors
      for (int64_t v = 0; v < kVectors; ++v) {
        Sum term;
        Lanes<T>::load(x + v * kLanes, term);
        sum[v] += term;
      }
    }
    Packed packed[kVectors];
#pragma GCC unroll kStepVectors
    for (int64_t v = 0; v < kVectors; ++v) Lanes<T>::pack(sum[v], packed[v]);
    for (void* target : targets) {
      std::byte* y = static_cast<std::byte*>(target) + at * static_cast<int64_t>(sizeof(T));
#pragma GCC unroll kStepVectors
      for (int64_t v = 0; v < kVectors; ++v) {
        std::memcpy(y + v * static_cast<int64_t>(sizeof(Packed)), &packed[v], sizeof(Packed));
      }
    }
  }
  return at;
}

// The rest, element by element, with the same arithmetic.
template <typename T>
void sum_elements(std::span<const void* const> sources, std::span<void* const> targets, int64_t at,
                  int64_t count) {
  using Scalar = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;
  for (; at < count; ++at) {
    Scalar sum = static_cast<Scalar>(static_cast<const T*>(sources[0])[at]);
    for (const void* source : sources.subspan(1)) {
      sum += static_cast<Scalar>(static_cast<const T*>(source)[at]);
    }
    for (void* target : targets) static_cast<T*>(target)[at] = static_cast<T>(sum);
  }
}

template <typename T>
void sum_typed(SumKernel kernel, std::span<const void* const> sources,
               std::span<void* const> targets, int64_t count) {
  int64_t at = 0;
  if (kernel == SumKernel::kBlocked) at = sum_blocks<T, kBlockVectors>(sources, targets, at, count);
  at = sum_blocks<T, kStepVectors>(sources, targets, at, count);
  sum_elements<T>(sources, targets, at, count);
}

}  // namespace

SumKernel choose_sum_kernel(std::span<const void* const> sources, std::span<void* const> targets) {
  for (size_t i = 0; i < sources.size(); ++i) {
    for (size_t j = i + 1; j < sources.size(); ++j) {
      if (aliased(sources[i], sources[j])) return SumKernel::kBlocked;
    }
    for (const void* target : targets) {
      if (aliased(sources[i], target)) return SumKernel::kBlocked;
    }
  }
  return SumKernel::kInterleaved;
}

void sum_in_order(SumKernel kernel, DType dtype, std::span<const void* const> sources,
                  std::span<void* const> targets, int64_t count) {
  if (count == 0) return;
  if (sources.size() == 1) {
    for (void* target : targets) {
      if (target == sources[0]) continue;
      std::memcpy(target, sources[0], static_cast<size_t>(count * size_bytes(dtype)));
    }
    return;
  }
  switch (dtype) {
    case DType::kF64:
      return sum_typed<double>(kernel, sources, targets, count);
    case DType::kF32:
      return sum_typed<float>(kernel, sources, targets, count);
    case DType::kBF16:
      return sum_typed<BFloat16>(kernel, sources, targets, count);
    case DType::kI32:
      return sum_typed<uint32_t>(kernel, sources, targets, count);
    default:
      TESSERA_CHECK(false, "sum of {}", name_of(dtype));
  }
}

}  // namespace tessera
