// Rows and flat tensors in packs: loads and stores of up to 16 bytes, and quick divisions for the
// places of elements.
#pragma once

#include "kernels/cuda/device.cuh"

namespace tessera::kernels::cuda {

template <int N, typename T>
__device__ inline Pack<T, N> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <int N, typename T>
__device__ inline void store_pack(T* to, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// Widened elements as a pack of storage type T. Two at a time where the GPU can.
template <typename T, int N>
__device__ inline Pack<T, N> narrow_pack(const Acc<T> (&values)[N]) {
  Pack<T, N> pack;
  if constexpr (std::is_same_v<T, __nv_bfloat16> && N % 2 == 0) {
#pragma unroll
    for (int j = 0; j < N; j += 2) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(values[j], values[j + 1]);
      pack.at[j] = pair.x;
      pack.at[j + 1] = pair.y;
    }
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) pack.at[j] = narrow<T>(values[j]);
  }
  return pack;
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

// n / divisor and n % divisor, by a product where n < 2^32. Exact: see the proof of Lemire, Kaser
// and Kurz, "Faster remainder by direct computation" (2019).
class Divider {
 public:
  explicit Divider(int64_t divisor)
      : divisor_(divisor),
        inverse_(divisor == 1 ? 0 : UINT64_MAX / static_cast<uint64_t>(divisor) + 1) {}

  __device__ int64_t quotient(int64_t n) const {
    if (n >> 32 != 0) return n / divisor_;
    if (inverse_ == 0) return n;
    return static_cast<int64_t>(__umul64hi(inverse_, static_cast<uint64_t>(n)));
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
