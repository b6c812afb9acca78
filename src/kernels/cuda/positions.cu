#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/map.cuh"
#include "kernels/cuda/device/token_positions.cuh"

namespace tessera::kernels::cuda {
namespace {

// A piece: N columns of a row.
template <typename T, int N>
struct AddPositions {
  static constexpr int kPieces = 2;
  struct Loaded {
    Pack<T, N> x, position;
  };
  const T *x, *table;
  T* y;
  Divider row_pieces;
  TokenPositions positions;

  __device__ Loaded load(int64_t i) const {
    const Place place = place_of(i, row_pieces);
    const int64_t position = positions.position(positions.place(place.row).column);
    const int64_t at = position * row_pieces.divisor() + place.column;
    return {load_pack<N>(x + i * N), load_pack<N>(table + at * N)};
  }
  __device__ void store(int64_t i, const Loaded& loaded) const {
    Acc<T> sums[N];
#pragma unroll
    for (int j = 0; j < N; ++j) sums[j] = widen(loaded.x.at[j]) + widen(loaded.position.at[j]);
    store_pack(y + i * N, narrow_pack<T>(sums));
  }
};

template <typename T, int N>
void run_add(const Gpu& gpu, const Tensor& x, const Tensor& table, Tensor& y,
             const TokenPositions& positions) {
  if (x.numel() == 0) return;
  map_pieces(
      "add_positions", gpu, x.numel() / N,
      AddPositions<T, N>{x.as<T>(), table.as<T>(), y.as<T>(), Divider(x.dim(1) / N), positions});
}

template <typename T, typename G>
struct TableGrad {
  int64_t tokens, width, length, skipped;  // `skipped` of the first sequence's tokens come before
  const T* dy;
  G* dtable;
  TokenPositions positions;
};

// A thread: N columns of one position, summed over the sequences in their order.
template <int N, typename T, typename G>
__global__ void __launch_bounds__(kMapThreads)
    table_grad_kernel(int64_t pieces, Divider row_pieces, TableGrad<T, G> g) {
  const int64_t piece = blockIdx.x * int64_t{kMapThreads} + threadIdx.x;
  if (piece >= pieces) return;
  const Place place = place_of(piece, row_pieces);
  const int64_t column = place.column * N;
  int64_t t = place.row - g.skipped;
  if (t < 0) t += g.length;
  if (t >= g.tokens) return;
  G* const to = g.dtable + g.positions.position(place.row) * g.width + column;
  Values<G, N> values = load_values<N>(to);
  Acc<T> sums[N];
#pragma unroll
  for (int j = 0; j < N; ++j) sums[j] = widen(values.at[j]);
#pragma unroll 4
  for (; t < g.tokens; t += g.length) {
    const Pack<T, N> grads = load_pack<N>(g.dy + t * g.width + column);
#pragma unroll
    for (int j = 0; j < N; ++j) sums[j] += widen(grads.at[j]);
  }
#pragma unroll
  for (int j = 0; j < N; ++j) values.at[j] = narrow<G>(sums[j]);
  store_values(to, values);
}

template <int N, typename T, typename G>
void run_table_grad(const Gpu& gpu, const TableGrad<T, G>& g) {
  const int64_t pieces = g.length * (g.width / N);
  if (pieces == 0 || g.tokens == 0) return;
  const auto blocks = static_cast<unsigned>(ceil_div(pieces, kMapThreads));
  table_grad_kernel<N><<<blocks, kMapThreads, 0, gpu.stream()>>>(pieces, Divider(g.width / N), g);
  check_launch("positions_dw");
}

}  // namespace

void add_positions(Context& ctx, const Tensor& x, const Tensor& table, Tensor& y,
                   const SequenceRows& rows, int64_t first_token) {
  const TokenPositions positions(rows, first_token);
  dispatch("add_positions", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(x.dim(1), x.as<T>(), table.as<T>(), y.as<T>())) {
      run_add<T, kPack<T>>(*ctx.gpu, x, table, y, positions);
    } else {
      run_add<T, 1>(*ctx.gpu, x, table, y, positions);
    }
  });
}

// The table was zeroed where nothing accumulates.
void positions_dw(Context& ctx, const Tensor& dy, Tensor& dtable, const SequenceRows& rows,
                  int64_t first_token, bool /*accumulate*/) {
  dispatch("positions_dw", dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_gradient<T>(dtable, [&](auto gradient) {
      using G = typename decltype(gradient)::type;
      const TableGrad<T, G> g{dy.dim(0),
                              dy.dim(1),
                              rows.length(),
                              first_token % rows.length(),
                              dy.as<T>(),
                              dtable.as<G>(),
                              TokenPositions(rows, first_token)};
      if (packable<T>(g.width, g.dy, g.dtable)) {
        run_table_grad<kPack<T>>(*ctx.gpu, g);
      } else {
        run_table_grad<1>(*ctx.gpu, g);
      }
    });
  });
}

}  // namespace tessera::kernels::cuda
