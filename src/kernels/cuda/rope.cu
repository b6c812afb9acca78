#include "kernels/cuda/bodies.h"
#include "kernels/cuda/map.cuh"

namespace tessera::kernels::cuda {
namespace {

// The first pieces of a row are N pairs of columns each, (d, d + D/2) of one head; the others are N
// columns that are copied.
template <typename T, int N>
struct Rope {
  static constexpr int kPieces = 1;  // it has many registers
  using A = Acc<T>;
  struct Loaded {
    Pack<T, N> first, second;
    Values<A, N> cos, sin;
  };
  const T* x;
  const A *cos, *sin;
  T* y;
  int64_t width, half;  // in elements
  int64_t turned;       // pieces of a row
  A direction;
  Divider row_pieces, half_pieces, seq_len;

  // Where the (first) columns of piece `column` of a row are.
  __device__ int64_t first_column(int64_t column) const {
    if (column >= turned) return (turned + column) * N;
    return (column + half_pieces.quotient(column) * half_pieces.divisor()) * N;
  }
  __device__ Loaded load(int64_t i) const {
    const Place place = place_of(i, row_pieces);
    const T* in = x + place.row * width + first_column(place.column);
    Loaded loaded;
    loaded.first = load_pack<N>(in);
    if (place.column < turned) {
      const int64_t angle = place_of(place.row, seq_len).column * half +
                            place_of(place.column, half_pieces).column * N;
      loaded.second = load_pack<N>(in + half);
      loaded.cos = load_values<N>(cos + angle);
      loaded.sin = load_values<N>(sin + angle);
    }
    return loaded;
  }
  __device__ void store(int64_t i, const Loaded& loaded) const {
    const Place place = place_of(i, row_pieces);
    T* out = y + place.row * width + first_column(place.column);
    if (place.column >= turned) {
      store_pack(out, loaded.first);
      return;
    }
    A first[N], second[N];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const A a = widen(loaded.first.at[j]), b = widen(loaded.second.at[j]);
      const A turn = direction * loaded.sin.at[j];
      first[j] = a * loaded.cos.at[j] - b * turn;
      second[j] = b * loaded.cos.at[j] + a * turn;
    }
    store_pack(out, narrow_pack<T>(first));
    store_pack(out + half, narrow_pack<T>(second));
  }
};

template <typename T, int N>
void run(const Gpu& gpu, const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& y,
         int64_t num_heads, bool inverse) {
  using A = Acc<T>;
  const int64_t width = x.dim(1), half = cos.dim(1), turned = num_heads * half / N;
  const int64_t copied = x.data == y.data ? 0 : width / N - 2 * turned;
  const int64_t pieces = x.dim(0) * (turned + copied);
  if (pieces == 0) return;
  map_pieces("rope", gpu, pieces,
             Rope<T, N>{x.as<T>(), cos.as<A>(), sin.as<A>(), y.as<T>(), width, half, turned,
                        inverse ? A{-1} : A{1}, Divider(turned + copied),
                        Divider(std::max<int64_t>(1, half / N)), Divider(cos.dim(0))});
}

}  // namespace

void rope(Context& ctx, const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& y,
          int64_t num_heads, bool inverse) {
  dispatch("rope", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const bool aligned = packable<T>(x.dim(1), x.as<T>(), y.as<T>(), cos.as<T>(), sin.as<T>());
    if (aligned && cos.dim(1) % kPack<T> == 0) {
      run<T, kPack<T>>(*ctx.gpu, x, cos, sin, y, num_heads, inverse);
    } else {
      run<T, 1>(*ctx.gpu, x, cos, sin, y, num_heads, inverse);
    }
  });
}

}  // namespace tessera::kernels::cuda
