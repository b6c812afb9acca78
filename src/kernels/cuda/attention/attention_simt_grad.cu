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

// The tensors of one call.
template <typename A>
struct Tensors {
  const A* q;
  const A* kv;
  const A* o;
  const A* lse;
  const A* d_o;
  const A* dq_before;  // null: dq starts at zero
  A* dq;
  A* dkv;
  A* dots;  // [T, heads]: d_o . o
};

template <typename A, int kDim>
struct Layout {
  static constexpr int kTile = kTileRows<A, kDim>;
  static constexpr int kElements = kTile * kStride<kDim>;
  static constexpr int kWeights = kTile * kStride<kTile>;
  static constexpr int kBytes = static_cast<int>(sizeof(A)) * (4 * kElements + 2 * kWeights);
};

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

// Scores and d_weights of a tile become the dropped weights (unless null) and d_scores, in memory.
template <typename A, int kRows, int kTile>
__device__ void softmax_grad_tile(const A (&scores)[kRows][kRows],
                                  const A (&d_weights)[kRows][kRows], const Sight& sees,
                                  const TileTokens<kTile>& queries, const TileTokens<kTile>& keys,
                                  const A* lse, const A* dots, const DropoutDraw<A>& dropout,
                                  A* weights, A* d_scores) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = thread_row() + i * kSide;
    const int32_t query = queries.position[row];
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      const int column = thread_column() + j * kSide;
      const int32_t key = keys.position[column];
      A weight{0}, d_score{0};
      if (sees(query, key)) {
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

template <typename A, int kDim>
__global__ void __launch_bounds__(kThreads)
    d_queries_kernel(Tensors<A> x, AttentionShape shape, int64_t num_sequences, int64_t tiles,
                     const StepParams* params) {
  constexpr int kTile = Layout<A, kDim>::kTile, kRows = kTile / kSide;
  constexpr int kElements = Layout<A, kDim>::kElements;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ TileTokens<kTile> queries, keys;
  __shared__ A lse[kTile], dots[kTile];
  A* q_tile = reinterpret_cast<A*>(memory);
  A* d_o_tile = q_tile + kElements;
  A* k_tile = d_o_tile + kElements;
  A* v_tile = k_tile + kElements;
  A* d_scores = v_tile + kElements;

  const BlockRows<A, kTile> block(shape, num_sequences, tiles, shape.heads);
  const BlockPlace& place = block.place;
  const int dim = block.dim;
  // The last tiles see the most keys: they begin first.
  const int64_t first = (tiles - 1 - place.tile) * kTile;
  const A scale = A{1} / sqrt(static_cast<A>(dim));
  const Sight sees(shape);
  const DropoutDraw<A> dropout(shape, params, place.sequence, place.head);
  block.locate_queries(first, queries);
  __syncthreads();
  block.template load_queries<kDim>(x.q, place.head, queries, scale, q_tile);
  block.template load_queries<kDim>(x.d_o, place.head, queries, A{1}, d_o_tile);
  load_numbers(x.lse, shape.heads, place.head, queries, lse);
  dots_of_rows(x, shape, place.head, queries, dots);

  A out[kRows][kDim / kSide] = {};
  for_each_key_tile<kDim>(block, first, x.kv, keys, k_tile, v_tile, [&] {
    A scores[kRows][kRows] = {}, d_weights[kRows][kRows] = {};
    dot_rows<kDim>(q_tile, k_tile, scores);
    dot_rows<kDim>(d_o_tile, v_tile, d_weights);
    softmax_grad_tile(scores, d_weights, sees, queries, keys, lse, dots, dropout,
                      static_cast<A*>(nullptr), d_scores);
    __syncwarp();  // a row of d_scores is of one half of a warp
    weigh_rows<kDim, kRows, false>(d_scores, k_tile, out);
  });

  for_each_element<kDim>(queries, dim, [&](int i, int k, int64_t row, int d) {
    const int64_t to = row * block.width + place.head * dim + d;
    const A before = x.dq_before == nullptr ? A{0} : x.dq_before[to];
    x.dq[to] = before + scale * out[i][k];
  });
}

template <typename A, int kDim>
__global__ void __launch_bounds__(kThreads)
    d_keys_kernel(Tensors<A> x, AttentionShape shape, int64_t num_sequences, int64_t tiles,
                  const StepParams* params) {
  constexpr int kTile = Layout<A, kDim>::kTile, kRows = kTile / kSide;
  constexpr int kElements = Layout<A, kDim>::kElements;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ TileTokens<kTile> queries, keys;
  __shared__ A lse[kTile], dots[kTile];
  A* q_tile = reinterpret_cast<A*>(memory);
  A* d_o_tile = q_tile + kElements;
  A* k_tile = d_o_tile + kElements;
  A* v_tile = k_tile + kElements;
  A* weights = v_tile + kElements;
  A* d_scores = weights + Layout<A, kDim>::kWeights;

  const BlockRows<A, kTile> block(shape, num_sequences, tiles, shape.kv_heads);
  const BlockPlace& place = block.place;
  const int dim = block.dim;
  const int64_t first = place.tile * kTile;
  const int64_t last = min(first + kTile, shape.kv_rows().length()) - 1;
  const A scale = A{1} / sqrt(static_cast<A>(dim));
  const Sight sees(shape);
  block.locate_keys(first, keys);
  __syncthreads();
  block.template load_keys<kDim>(x.kv, place.head, keys, k_tile, v_tile);

  A d_keys[kRows][kDim / kSide] = {}, d_values[kRows][kDim / kSide] = {};
  const TokenRange range = queries_seeing(shape, first, last);
  const TokenRange heads = query_heads_of(shape, place.head);
  for (int64_t head = heads.begin; head < heads.end; ++head) {
    const DropoutDraw<A> dropout(shape, params, place.sequence, head);
    for (int64_t query = range.begin / kTile * kTile; query < range.end; query += kTile) {
      __syncthreads();  // the tile before is read no more
      block.locate_queries(query, queries);
      __syncthreads();
      block.template load_queries<kDim>(x.q, head, queries, scale, q_tile);
      block.template load_queries<kDim>(x.d_o, head, queries, A{1}, d_o_tile);
      load_numbers(x.lse, shape.heads, head, queries, lse);
      load_numbers(static_cast<const A*>(x.dots), shape.heads, head, queries, dots);
      __syncthreads();
      A scores[kRows][kRows] = {}, d_weights[kRows][kRows] = {};
      dot_rows<kDim>(q_tile, k_tile, scores);
      dot_rows<kDim>(d_o_tile, v_tile, d_weights);
      softmax_grad_tile(scores, d_weights, sees, queries, keys, lse, dots, dropout, weights,
                        d_scores);
      __syncthreads();
      weigh_rows<kDim, kRows, true>(weights, d_o_tile, d_values);
      // The queries carry the scale.
      weigh_rows<kDim, kRows, true>(d_scores, q_tile, d_keys);
    }
  }

  for_each_element<kDim>(keys, dim, [&](int i, int k, int64_t row, int d) {
    const int64_t to = row * block.kv_width + place.head * dim + d;
    x.dkv[to] = d_keys[i][k];
    x.dkv[to + shape.kv_heads * dim] = d_values[i][k];
  });
}

template <typename A>
void backward(Context& ctx, const Tensors<A>& x, int64_t num_sequences,
              const AttentionShape& shape) {
  constexpr const char* kOp = "attention_grad";
  for_head_dim(kOp, shape.head_dim, [&](auto width) {
    constexpr int kDim = decltype(width)::value;
    using Tiles = Layout<A, kDim>;
    const int64_t q_tiles = ceil_div(shape.q_rows().length(), Tiles::kTile);
    const int64_t k_tiles = ceil_div(shape.kv_rows().length(), Tiles::kTile);
    allow_shared(kOp, d_queries_kernel<A, kDim>, Tiles::kBytes);
    d_queries_kernel<A, kDim>
        <<<grid_of(kOp, q_tiles, shape.heads, num_sequences), kThreads, Tiles::kBytes,
           ctx.gpu->stream()>>>(x, shape, num_sequences, q_tiles, ctx.params);
    check_launch(kOp);
    allow_shared(kOp, d_keys_kernel<A, kDim>, Tiles::kBytes);
    d_keys_kernel<A, kDim>
        <<<grid_of(kOp, k_tiles, shape.kv_heads, num_sequences), kThreads, Tiles::kBytes,
           ctx.gpu->stream()>>>(x, shape, num_sequences, k_tiles, ctx.params);
    check_launch(kOp);
  });
}

}  // namespace

void simt_attention_grad(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                         const Tensor& lse, const Tensor& d_o, const Tensor& dq_before, Tensor& dq,
                         Tensor& dkv, const AttentionShape& shape) {
  constexpr const char* kOp = "attention_grad";
  Scratch scratch(kOp, ctx.workspace,
                  workspace::cuda::attention_dots(q.dtype, q.dim(0), shape.heads));
  const auto run = [&](auto tag) {
    using A = typename decltype(tag)::type;
    const Tensors<A> x{q.as<A>(),   kv.as<A>(),  o.as<A>(),
                       lse.as<A>(), d_o.as<A>(), dq_before.as<A>(),
                       dq.as<A>(),  dkv.as<A>(), scratch.take<A>(lse.numel())};
    backward(ctx, x, q.dim(0) / shape.q_rows().length(), shape);
  };
  if (q.dtype == DType::kF64) {
    run(TypeTag<double>{});
  } else {
    run(TypeTag<float>{});
  }
}

}  // namespace tessera::kernels::cuda
