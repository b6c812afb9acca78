// Element-wise work near the bandwidth of memory: several packs per thread, all loads before the
// first store, so that outputs may be inputs.
#pragma once

#include <cuda/std/tuple>

#include "kernels/cuda/device/packs.cuh"

namespace tessera::kernels::cuda {

inline constexpr int kMapThreads = 256;

// ---- flat ----  to[i] = f(from[i]…), f on widened elements. `to` may be one of `from`.
inline constexpr int kFlatPacks = 4;  // of one thread

template <int N, typename F, typename To, typename... From>
__device__ inline Pack<To, N> apply_to_packs(const F& f, const Pack<From, N>&... packs) {
  Acc<To> values[N];
#pragma unroll
  for (int j = 0; j < N; ++j) values[j] = static_cast<Acc<To>>(f(widen(packs.at[j])...));
  return narrow_pack<To>(values);
}

// The last elements, fewer than a pack, are the first block's.
template <int N, typename F, typename To, typename... From>
__global__ void __launch_bounds__(kMapThreads)
    flat_map_kernel(int64_t count, F f, To* to, const From*... from) {
  const int64_t packs = count / N;
  const int64_t first = blockIdx.x * int64_t{kMapThreads * kFlatPacks} + threadIdx.x;
  ::cuda::std::tuple<Pack<From, N>...> loaded[kFlatPacks];
#pragma unroll
  for (int k = 0; k < kFlatPacks; ++k) {
    const int64_t i = first + k * kMapThreads;
    if (i < packs) loaded[k] = {load_pack<N>(from + i * N)...};
  }
#pragma unroll
  for (int k = 0; k < kFlatPacks; ++k) {
    const int64_t i = first + k * kMapThreads;
    if (i >= packs) continue;
    ::cuda::std::apply(
        [&](const Pack<From, N>&... packs_of) {
          store_pack(to + i * N, apply_to_packs<N, F, To, From...>(f, packs_of...));
        },
        loaded[k]);
  }
  if constexpr (N > 1) {
    const int64_t last = packs * N + threadIdx.x;
    if (blockIdx.x == 0 && last < count) {
      to[last] = narrow<To>(static_cast<Acc<To>>(f(widen(from[last])...)));
    }
  }
}

template <typename F, typename To, typename... From>
void flat_map(const char* op, const Gpu& gpu, int64_t count, const F& f, To* to,
              const From*... from) {
  if (count == 0) return;
  constexpr int kWidest = static_cast<int>(std::max({sizeof(To), sizeof(From)...}));
  constexpr int kWide = 16 / kWidest;
  const bool aligned = reinterpret_cast<uintptr_t>(to) % (kWide * sizeof(To)) == 0 &&
                       ((reinterpret_cast<uintptr_t>(from) % (kWide * sizeof(From)) == 0) && ...);
  const int64_t packs = std::max<int64_t>(1, aligned ? count / kWide : count);
  const auto blocks = static_cast<unsigned>(ceil_div(packs, kMapThreads * kFlatPacks));
  if (aligned) {
    flat_map_kernel<kWide><<<blocks, kMapThreads, 0, gpu.stream()>>>(count, f, to, from...);
  } else {
    flat_map_kernel<1><<<blocks, kMapThreads, 0, gpu.stream()>>>(count, f, to, from...);
  }
  check_launch(op);
}

// ---- by pieces ----  Body has load(i), which reads what piece i needs into registers, and
// store(i, loaded), which computes and writes it; kPieces says how many a thread has. Pieces do not
// touch what others write.

template <typename Body>
__global__ void __launch_bounds__(kMapThreads) map_kernel(int64_t pieces, Body body) {
  const int64_t first = blockIdx.x * int64_t{kMapThreads * Body::kPieces} + threadIdx.x;
  typename Body::Loaded loaded[Body::kPieces];
#pragma unroll
  for (int k = 0; k < Body::kPieces; ++k) {
    const int64_t i = first + k * kMapThreads;
    if (i < pieces) loaded[k] = body.load(i);
  }
#pragma unroll
  for (int k = 0; k < Body::kPieces; ++k) {
    const int64_t i = first + k * kMapThreads;
    if (i < pieces) body.store(i, loaded[k]);
  }
}

template <typename Body>
void map_pieces(const char* op, const Gpu& gpu, int64_t pieces, const Body& body) {
  if (pieces == 0) return;
  const auto blocks = static_cast<unsigned>(ceil_div(pieces, kMapThreads * Body::kPieces));
  map_kernel<<<blocks, kMapThreads, 0, gpu.stream()>>>(pieces, body);
  check_launch(op);
}

}  // namespace tessera::kernels::cuda
