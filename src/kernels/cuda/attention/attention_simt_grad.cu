// Attention backward by ordinary arithmetic, in two passes that both recompute the probabilities:
// dq by tiles of queries, which also leaves d_o . o for the second; dk and dv by tiles of keys,
// summed over the query heads and tiles that see them in a fixed order.
#include "base/cuda_workspace.h"
#include "kernels/cuda/attention/attention_own.h"
#include "kernels/cuda/attention/attention_simt.cuh"
#include "kernels/scratch.h"

namespace tessera::kernels::cuda {
namespace {

using namespace simt;  // the vocabulary of these tiles

template <typename A>
using Tensors = GradTensors<A, A*>;

// d_o . o of the tile's rows, to all threads and to memory. One warp per row.
template <typename A, int kTile>
__device__ void dots_of_rows(const Tensors<A>& x, const AttentionShape& shape, int64_t head,
                             const TileTokens<kTile>& queries, A* dots) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int r = warp; r < kTile; r += kThreads / 32) {
    A sum{0};
    const int64_t row = queries.row[r], at = row * shape.heads + head;
    if (row >= 0) {
      for (int64_t d = lane; d < shape.head_dim; d += 32) {
        const int64_t i = at * shape.head_dim + d;
        sum += x.d_o[i] * x.o[i];
      }
    }
    sum = warp_sum(sum);
    if (lane != 0) continue;
    dots[r] = sum;
    if (row >= 0) x.dots[at] = sum;
  }
}

template <typename A, int kTile>
__device__ void load_numbers(const A* from, int64_t heads, int64_t head,
                             const TileTokens<kTile>& queries, A* to) {
  for (int r = static_cast<int>(threadIdx.x); r < kTile; r += kThreads) {
    const int64_t row = queries.row[r];
    to[r] = row >= 0 ? from[row * heads + head] : A{0};
  }
}

// Calls f(i, k, row of the tensor, column of the head) for what a thread has of a tile.
template <int kDim, int kTile, typename F>
__device__ inline void for_each_element(const TileTokens<kTile>& tokens, int dim, F&& f) {
#pragma unroll
  for (int i = 0; i < kTile / kSide; ++i) {
    const int64_t row = tokens.row[thread_row() + i * kSide];
    if (row < 0) continue;
#pragma unroll
    for (int k = 0; k < kDim / kSide; ++k) {
      const int d = thread_column() + k * kSide;
      if (d < dim) f(i, k, row, d);
    }
  }
}

// The dynamic shared memory of a block of either pass.
template <typename A, int kDim>
struct Tiles {
  RowTile<A, kDim> q, d_o, k, v;
  SquareTile<A, kDim> square[2];
};

// All that a block of either pass has in shared memory: the rows of a tile of queries and of one of
// keys, which tokens they are, and what softmax left of the queries.
template <typename A, int kDim>
struct Shared {
  static constexpr int kTile = kTileRows<A, kDim>, kRows = kTile / kSide;

  Tiles<A, kDim>& tile;
  TileQueries<kTile>& queries;
  TileTokens<kTile>& keys;
  A (&lse)[kTile], (&dots)[kTile];  // of the queries

  // The located queries of a head, but for `dots`.
  __device__ void load_queries(const BlockRows<A, kTile>& block, const Tensors<A>& x, int64_t head,
                               A scale) const {
    block.template load_queries<kDim>(x.q, head, queries, scale, tile.q);
    block.template load_queries<kDim>(x.d_o, head, queries, A{1}, tile.d_o);
    load_numbers(x.lse, block.shape.heads, head, queries, lse);
  }
  // The dropped weights (unless null) and d_scores of the queries and keys that are loaded.
  __device__ void differentiate(const DropoutDraw<A>& dropout, A* weights, A* d_scores) const {
    A scores[kRows][kRows] = {}, d_weights[kRows][kRows] = {};
    dot_rows<kDim>(tile.q, tile.k, scores);
    dot_rows<kDim>(tile.d_o, tile.v, d_weights);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = thread_row() + i * kSide;
      const int32_t query = queries.position[row], start = queries.start[row];
#pragma unroll
      for (int j = 0; j < kRows; ++j) {
        const int column = thread_column() + j * kSide;
        const int32_t key = keys.position[column];
        A weight{0}, d_score{0};
        if (sees(query, start, key)) {
          const A factor = dropout.on() ? dropout.factor(query, key) : A{1};
          const A p = exp(scores[i][j] - lse[row]);
          weight = p * factor;
          d_score = p * (factor * d_weights[i][j] - dots[row]);
        }
        if (weights != nullptr) weights[row * kStride<kTile> + column] = weight;
        d_scores[row * kStride<kTile> + column] = d_score;
      }
    }
  }
};

template <typename A, int kDim>
__global__ void __launch_bounds__(kThreads)
    d_queries_kernel(Tensors<A> x, AttentionShape shape, int64_t num_sequences, int64_t tiles,
                     const StepParams* params) {
  constexpr int kTile = kTileRows<A, kDim>;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ TileQueries<kTile> queries;
  __shared__ TileTokens<kTile> keys;
  __shared__ A lse[kTile], dots[kTile];
  auto& tile = *reinterpret_cast<Tiles<A, kDim>*>(memory);
  const Shared<A, kDim> shared{tile, queries, keys, lse, dots};

  const QueryBlock<A, kTile> block(shape, num_sequences, tiles);
  const BlockPlace& place = block.place;
  const A scale = block.scale();
  const DropoutDraw<A> dropout(shape, params, place.sequence, place.head);
  block.locate_queries(block.first, queries);
  __syncthreads();
  shared.load_queries(block, x, place.head, scale);
  dots_of_rows(x, shape, place.head, queries, dots);

  A out[kTile / kSide][kDim / kSide] = {};
  for_each_key_tile<kDim>(block, x.kv, keys, tile.k, tile.v, [&] {
    shared.differentiate(dropout, nullptr, tile.square[0]);
    __syncwarp();  // a row of d_scores is of one half of a warp
    weigh_rows<kDim, false>(tile.square[0], tile.k, out);
  });

  for_each_element<kDim>(queries, block.dim, [&](int i, int k, int64_t row, int d) {
    const int64_t to = row * block.width + place.head * block.dim + d;
    const A before = x.dq_before == nullptr ? A{0} : x.dq_before[to];
    x.dq[to] = before + scale * out[i][k];
  });
}

template <typename A, int kDim>
__global__ void __launch_bounds__(kThreads)
    d_keys_kernel(Tensors<A> x, AttentionShape shape, int64_t num_sequences, int64_t tiles,
                  const StepParams* params) {
  constexpr int kTile = kTileRows<A, kDim>, kRows = kTile / kSide;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ TileQueries<kTile> queries;
  __shared__ TileTokens<kTile> keys;
  __shared__ A lse[kTile], dots[kTile];
  auto& tile = *reinterpret_cast<Tiles<A, kDim>*>(memory);
  const Shared<A, kDim> shared{tile, queries, keys, lse, dots};
  auto& [weights, d_scores] = tile.square;

  const BlockRows<A, kTile> block(shape, num_sequences, tiles, shape.kv_heads);
  const BlockPlace& place = block.place;
  const int64_t first = place.tile * kTile;
  const int64_t last = min(first + kTile, shape.kv_rows().length()) - 1;
  const A scale = block.scale();
  block.locate_keys(first, keys);
  __syncthreads();
  block.template load_keys<kDim>(x.kv, place.head, keys, tile.k, tile.v);

  A d_keys[kRows][kDim / kSide] = {}, d_values[kRows][kDim / kSide] = {};
  const TokenRange range = queries_seeing(shape, block.sequence(), first, last);
  const TokenRange heads = query_heads_of(shape, place.head);
  for (int64_t head = heads.begin; head < heads.end; ++head) {
    const DropoutDraw<A> dropout(shape, params, place.sequence, head);
    for (int64_t query = range.begin / kTile * kTile; query < range.end; query += kTile) {
      __syncthreads();  // the tile before is read no more
      block.locate_queries(query, queries);
      __syncthreads();
      shared.load_queries(block, x, head, scale);
      load_numbers<A>(x.dots, shape.heads, head, queries, dots);
      __syncthreads();
      shared.differentiate(dropout, weights, d_scores);
      __syncthreads();
      weigh_rows<kDim, true>(weights, tile.d_o, d_values);
      // The queries carry the scale.
      weigh_rows<kDim, true>(d_scores, tile.q, d_keys);
    }
  }

  for_each_element<kDim>(keys, block.dim, [&](int i, int k, int64_t row, int d) {
    const int64_t to = row * block.kv_width + place.head * block.dim + d;
    x.dkv[to] = d_keys[i][k];
    x.dkv[to + shape.kv_heads * block.dim] = d_values[i][k];
  });
}

template <typename A>
void backward(Context& ctx, const Tensors<A>& x, int64_t num_sequences,
              const AttentionShape& shape) {
  constexpr const char* kOp = "attention_grad";
  for_head_dim(kOp, shape.head_dim, [&](auto width) {
    constexpr int kDim = decltype(width)::value;
    constexpr int kTile = kTileRows<A, kDim>;
    const int64_t q_tiles = ceil_div(shape.q_rows().length(), kTile);
    const int64_t k_tiles = ceil_div(shape.kv_rows().length(), kTile);
    launch(kOp, ctx, d_queries_kernel<A, kDim>, {q_tiles, shape.heads, num_sequences}, kThreads,
           sizeof(Tiles<A, kDim>), x, shape);
    launch(kOp, ctx, d_keys_kernel<A, kDim>, {k_tiles, shape.kv_heads, num_sequences}, kThreads,
           sizeof(Tiles<A, kDim>), x, shape);
  });
}

}  // namespace

void simt_attention_grad(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                         const Tensor& lse, const Tensor& d_o, const Tensor& dq_before, Tensor& dq,
                         Tensor& dkv, const AttentionShape& shape) {
  Scratch scratch("attention_grad", ctx.workspace,
                  workspace::cuda::attention_dots(q.dtype, q.dim(0), shape.heads));
  for_type(q.dtype, [&](auto tag) {
    using A = typename decltype(tag)::type;
    const Tensors<A> x{q.as<A>(),   kv.as<A>(),  o.as<A>(),
                       lse.as<A>(), d_o.as<A>(), dq_before.as<A>(),
                       dq.as<A>(),  dkv.as<A>(), scratch.take<A>(lse.numel())};
    backward(ctx, x, q.dim(0) / shape.q_rows().length(), shape);
  });
}

}  // namespace tessera::kernels::cuda
