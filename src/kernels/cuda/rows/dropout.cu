#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/map.cuh"
#include "kernels/cuda/device/token_positions.cuh"

namespace tessera::kernels::cuda {
namespace {

// A piece: N columns of a row.
template <typename T, int N>
struct Dropout {
  const T* x;
  T* y;
  Divider row_pieces;
  TokenPositions positions;
  DropoutMask mask;  // without its key
  uint32_t threshold;
  Acc<T> kept;  // the factor of what is not dropped

  __device__ void store(int64_t i, const Pack<T, N>& loaded,
                        const std::array<uint32_t, 2>& key) const {
    const Place place = place_of(i, row_pieces), token = positions.place(place.row);
    const auto sample = static_cast<uint32_t>(mask.first_sample + token.row);
    const auto position = static_cast<uint32_t>(positions.position(token.column));
    const int64_t column = place.column * N;
    Acc<T> values[N];
#pragma unroll
    for (int j = 0; j < N; j += 4) {
      // One draw serves four columns; packs of four begin with one.
      const std::array<uint32_t, 4> draws =
          philox({static_cast<uint32_t>((column + j) / 4), position, sample, 0}, key);
#pragma unroll
      for (int k = j; k < std::min(j + 4, N); ++k) {
        const auto draw = static_cast<size_t>(N >= 4 ? k % 4 : (column + k) % 4);
        values[k] = widen(loaded.at[k]) * (draws[draw] < threshold ? Acc<T>{0} : kept);
      }
    }
    store_pack(y + i * N, narrow_pack<T>(values));
  }
};

// As map_kernel, with a key that a thread draws for its block while the loads are on their way.
template <typename T, int N>
__global__ void __launch_bounds__(kMapThreads)
    dropout_kernel(int64_t pieces, Dropout<T, N> dropout, const StepParams* params) {
  __shared__ std::array<uint32_t, 2> key;
  const int64_t first = blockIdx.x * int64_t{kMapThreads * kFlatPacks} + threadIdx.x;
  Pack<T, N> loaded[kFlatPacks];
#pragma unroll
  for (int k = 0; k < kFlatPacks; ++k) {
    const int64_t i = first + k * kMapThreads;
    if (i < pieces) loaded[k] = load_pack<N>(dropout.x + i * N);
  }
  if (threadIdx.x == 0) key = with_key(dropout.mask, params).key;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kFlatPacks; ++k) {
    const int64_t i = first + k * kMapThreads;
    if (i < pieces) dropout.store(i, loaded[k], key);
  }
}

template <typename T, int N>
void run(Context& ctx, const Tensor& x, Tensor& y, const DropoutMask& mask,
         const TokenPositions& positions) {
  using A = Acc<T>;
  const int64_t pieces = x.numel() / N;
  const auto blocks = static_cast<unsigned>(ceil_div(pieces, kMapThreads * kFlatPacks));
  const Dropout<T, N> dropout{x.as<T>(),
                              y.as<T>(),
                              Divider(x.dim(1) / N),
                              positions,
                              mask,
                              static_cast<uint32_t>(mask.rate * 0x1p32),
                              A{1} / (A{1} - static_cast<A>(mask.rate))};
  dropout_kernel<<<blocks, kMapThreads, 0, ctx.gpu->stream()>>>(pieces, dropout, ctx.params);
  check_launch("dropout");
}

}  // namespace

void dropout(Context& ctx, const Tensor& x, Tensor& y, const DropoutMask& mask,
             const SequenceRows& rows, int64_t first_token) {
  if (x.numel() == 0) return;
  if (!mask.on()) {
    if (x.data != y.data) cuda::copy(ctx, x, y);
    return;
  }
  const TokenPositions positions(rows, first_token);
  dispatch("dropout", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(x.dim(1), x.as<T>(), y.as<T>())) {
      run<T, kPack<T>>(ctx, x, y, mask, positions);
    } else {
      run<T, 1>(ctx, x, y, mask, positions);
    }
  });
}

}  // namespace tessera::kernels::cuda
