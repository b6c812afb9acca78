#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/map.cuh"
#include "kernels/cuda/rows/column_sums.cuh"

namespace tessera::kernels::cuda {
namespace {

// A piece: N columns of a row.
template <typename T, int N>
struct AddBias {
  static constexpr int kPieces = 2;
  struct Loaded {
    Pack<T, N> x, b;
  };
  const T *x, *b;
  T* y;
  Divider row_pieces;

  __device__ Loaded load(int64_t i) const {
    return {load_pack<N>(x + i * N), load_pack<N>(b + place_of(i, row_pieces).column * N)};
  }
  __device__ void store(int64_t i, const Loaded& loaded) const {
    Acc<T> sums[N];
#pragma unroll
    for (int j = 0; j < N; ++j) sums[j] = widen(loaded.x.at[j]) + widen(loaded.b.at[j]);
    store_pack(y + i * N, narrow_pack<T>(sums));
  }
};

template <typename T, int N>
void run_add_bias(const Gpu& gpu, const Tensor& x, const Tensor& b, Tensor& y) {
  if (x.numel() == 0) return;
  map_pieces("add_bias", gpu, x.numel() / N,
             AddBias<T, N>{x.as<T>(), b.as<T>(), y.as<T>(), Divider(x.dim(1) / N)});
}

template <typename T, int N>
struct BiasTerms {
  using Loaded = Packed<T, N>;
  const T* dy;
  int64_t width;

  __device__ Loaded load(int64_t row, int64_t column) const {
    return load_packed<N>(dy + row * width + column);
  }
  __device__ void add(const Loaded& loaded, Acc<T> (&sums)[N]) const {
    const Pack<T, N> grads = unpack(loaded);
#pragma unroll
    for (int j = 0; j < N; ++j) sums[j] += widen(grads.at[j]);
  }
};

template <typename T, int N>
void sum_bias_terms(Context& ctx, const Tensor& dy, Tensor& db, bool accumulate) {
  column_sums<T, N>("bias_dw", ctx, dy.dim(0), dy.dim(1), BiasTerms<T, N>{dy.as<T>(), dy.dim(1)},
                    std::array{db}, accumulate);
}

}  // namespace

void add_bias(Context& ctx, const Tensor& x, const Tensor& b, Tensor& y) {
  dispatch("add_bias", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(x.dim(1), x.as<T>(), b.as<T>(), y.as<T>())) {
      run_add_bias<T, kPack<T>>(*ctx.gpu, x, b, y);
    } else {
      run_add_bias<T, 1>(*ctx.gpu, x, b, y);
    }
  });
}

void bias_dw(Context& ctx, const Tensor& dy, Tensor& db, bool accumulate) {
  dispatch("bias_dw", dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(dy.dim(1), dy.as<T>())) {
      sum_bias_terms<T, kPack<T>>(ctx, dy, db, accumulate);
    } else {
      sum_bias_terms<T, 1>(ctx, dy, db, accumulate);
    }
  });
}

}  // namespace tessera::kernels::cuda
