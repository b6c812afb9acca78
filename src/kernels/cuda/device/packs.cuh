// Rows and flat tensors in packs: loads and stores of up to 16 bytes, and quick divisions for the
// places of elements.
#pragma once

#include <bit>

#include "kernels/cuda/device/device.cuh"

namespace tessera::kernels::cuda {

// What moves so many bytes in one instruction.
template <int kBytes>
struct WordOf;
template <>
struct WordOf<16> {
  using type = uint4;
};
template <>
struct WordOf<8> {
  using type = uint2;
};
template <>
struct WordOf<4> {
  using type = uint32_t;
};
template <>
struct WordOf<2> {
  using type = uint16_t;
};
template <typename T, int N>
using Word = typename WordOf<sizeof(T) * N>::type;

template <int N, typename T>
__device__ inline Pack<T, N> load_pack(const T* from) {
  return std::bit_cast<Pack<T, N>>(*reinterpret_cast<const Word<T, N>*>(from));
}
// An ordinary store, which the compiler cannot break up into stores of elements.
template <int N, typename T>
__device__ inline void store_pack(T* to, const Pack<T, N>& pack) {
  __stwb(reinterpret_cast<Word<T, N>*>(to), std::bit_cast<Word<T, N>>(pack));
}

// A pack as it was loaded. The compiler takes packs apart as soon as they arrive, and a register
// holds one element of 16 bits; this one stays in the registers of its bytes until unpack.
template <typename T, int N>
struct Packed {
  Word<T, N> word;
};
template <int N, typename T>
__device__ inline Packed<T, N> load_packed(const T* from) {
  return {*reinterpret_cast<const Word<T, N>*>(from)};
}
__device__ inline void hide(uint4& w) {
  asm volatile("" : "+r"(w.x), "+r"(w.y), "+r"(w.z), "+r"(w.w));
}
__device__ inline void hide(uint2& w) { asm volatile("" : "+r"(w.x), "+r"(w.y)); }
__device__ inline void hide(uint32_t& w) { asm volatile("" : "+r"(w)); }
__device__ inline void hide(uint16_t& w) { asm volatile("" : "+h"(w)); }
template <typename T, int N>
__device__ inline Pack<T, N> unpack(Packed<T, N> packed) {
  hide(packed.word);
  return std::bit_cast<Pack<T, N>>(packed.word);
}

__device__ inline uint32_t narrow_two(float low, float high, __nv_bfloat16 /*storage*/) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ inline uint32_t narrow_two(float low, float high, __half /*storage*/) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// Widened elements as a pack of storage type T, two at a time where the GPU can.
template <typename T, int N>
__device__ inline Pack<T, N> narrow_pack(const Acc<T> (&values)[N]) {
  if constexpr (sizeof(T) == 2 && N % 2 == 0) {
    Pack<uint32_t, N / 2> words;
#pragma unroll
    for (int j = 0; j < N; j += 2) words.at[j / 2] = narrow_two(values[j], values[j + 1], T{});
    return std::bit_cast<Pack<T, N>>(words);
  } else {
    Pack<T, N> pack;
#pragma unroll
    for (int j = 0; j < N; ++j) pack.at[j] = narrow<T>(values[j]);
    return pack;
  }
}

// Neighbours of another type than the packs beside them: as many loads as they need.
template <typename T, int N>
struct Values {
  T at[N];
};
template <int N, typename T>
__device__ inline Values<T, N> load_values(const T* from) {
  constexpr int kAtOnce = std::min(N, kPack<T>);
  Values<T, N> values;
#pragma unroll
  for (int j = 0; j < N; j += kAtOnce) {
    const Pack<T, kAtOnce> pack = load_pack<kAtOnce>(from + j);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) values.at[j + k] = pack.at[k];
  }
  return values;
}
template <int N, typename T>
__device__ inline void store_values(T* to, const Values<T, N>& values) {
  constexpr int kAtOnce = std::min(N, kPack<T>);
#pragma unroll
  for (int j = 0; j < N; j += kAtOnce) {
    Pack<T, kAtOnce> pack;
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) pack.at[k] = values.at[j + k];
    store_pack(to + j, pack);
  }
}

// n / divisor for n >= 0 by two products. With the inverse rounded up the first is the quotient or
// one more, as n < 2^63.
class Divider {
 public:
  explicit Divider(int64_t divisor)
      : divisor_(divisor),
        inverse_(divisor == 1 ? 0 : UINT64_MAX / static_cast<uint64_t>(divisor) + 1) {}

  __device__ int64_t quotient(int64_t n) const {
    if (inverse_ == 0) return n;  // 2^64 does not fit
    const auto q = static_cast<int64_t>(__umul64hi(inverse_, static_cast<uint64_t>(n)));
    return q * divisor_ > n ? q - 1 : q;
  }
  __device__ int64_t divisor() const { return divisor_; }

 private:
  int64_t divisor_;
  uint64_t inverse_;
};

// Where piece number i of rows of equal length stands.
struct Place {
  int64_t row, column;
};
__device__ inline Place place_of(int64_t i, const Divider& row_length) {
  const int64_t row = row_length.quotient(i);
  return {row, i - row * row_length.divisor()};
}

}  // namespace tessera::kernels::cuda
