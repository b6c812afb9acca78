// Attention forward by ordinary arithmetic: one block per tile of queries and head; it walks over
// the keys with a running maximum and sum, so that no row of scores is ever whole.
#include "kernels/cuda/attention/attention_own.h"
#include "kernels/cuda/attention/attention_simt.cuh"

namespace tessera::kernels::cuda {
namespace {

using namespace simt;  // the vocabulary of these tiles

template <typename A>
using Tensors = ForwardTensors<A, A*>;

// The dynamic shared memory of a block.
template <typename A, int kDim>
struct Tiles {
  RowTile<A, kDim> q, k, v;
  SquareTile<A, kDim> weights;
};

// What is known of a row after some of the keys. The sum is this thread's share.
template <typename A, int kRows>
struct Running {
  A max[kRows], sum[kRows];
  __device__ Running() {
    for (int i = 0; i < kRows; ++i) {
      max[i] = -static_cast<A>(INFINITY);
      sum[i] = A{0};
    }
  }
};

// Scores become weights exp(score - max), dropped where dropout says; returns in `shrink` what
// everything before is to be multiplied by.
template <typename A, int kRows, int kTile>
__device__ void softmax_tile(const A (&scores)[kRows][kRows], const TileQueries<kTile>& queries,
                             const TileTokens<kTile>& keys, const DropoutDraw<A>& dropout,
                             Running<A, kRows>& running, A (&shrink)[kRows], A* weights) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = thread_row() + i * kSide;
    const int32_t query = queries.position[row], start = queries.start[row];
    A max = running.max[i];
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      if (sees(query, start, keys.position[thread_column() + j * kSide]) && scores[i][j] > max) {
        max = scores[i][j];
      }
    }
    max = row_max(max);
    // Where nothing was seen yet there is nothing to shrink, and inf - inf is no number.
    shrink[i] = running.max[i] < max ? exp(running.max[i] - max) : A{1};
    running.max[i] = max;
    running.sum[i] *= shrink[i];
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      const int column = thread_column() + j * kSide;
      const int32_t key = keys.position[column];
      A weight = sees(query, start, key) ? exp(scores[i][j] - max) : A{0};
      running.sum[i] += weight;
      if (dropout.on() && weight > A{0}) weight *= dropout.factor(query, key);
      weights[row * kStride<kTile> + column] = weight;
    }
  }
}

template <typename A>
__device__ void store_row(const Tensors<A>& x, int64_t at, int dim, A max, A sum, const A* out,
                          int count) {
  const A lse_here = max + log(sum);  // -inf when nothing was seen
  const A inverse = sum > A{0} ? A{1} / sum : A{0};
  Merged<A> m{A{0}, A{1}, lse_here};
  if (x.o_before != nullptr) m = merge(x.lse_before[at], lse_here);
  for (int k = 0; k < count; ++k) {
    const int d = thread_column() + k * kSide;
    if (d >= dim) break;
    const int64_t to = at * dim + d;
    const A here = m.here * inverse * out[k];
    x.o[to] = x.o_before == nullptr ? here : m.before * x.o_before[to] + here;
  }
}

template <typename A, int kDim>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(Tensors<A> x, AttentionShape shape, int64_t num_sequences, int64_t tiles,
                   const StepParams* params) {
  constexpr int kTile = kTileRows<A, kDim>, kRows = kTile / kSide;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ TileQueries<kTile> queries;
  __shared__ TileTokens<kTile> keys;
  auto& tile = *reinterpret_cast<Tiles<A, kDim>*>(memory);

  const QueryBlock<A, kTile> block(shape, num_sequences, tiles);
  const BlockPlace& place = block.place;
  const DropoutDraw<A> dropout(shape, params, place.sequence, place.head);
  block.locate_queries(block.first, queries);
  __syncthreads();
  block.template load_queries<kDim>(x.q, place.head, queries, block.scale(), tile.q);

  Running<A, kRows> running;
  A out[kRows][kDim / kSide] = {};
  for_each_key_tile<kDim>(block, x.kv, keys, tile.k, tile.v, [&] {
    A scores[kRows][kRows] = {}, shrink[kRows];
    dot_rows<kDim>(tile.q, tile.k, scores);
    softmax_tile(scores, queries, keys, dropout, running, shrink, tile.weights);
    __syncwarp();  // a row of weights is of one half of a warp
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int k = 0; k < kDim / kSide; ++k) out[i][k] *= shrink[i];
    }
    weigh_rows<kDim, false>(tile.weights, tile.v, out);
  });

#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const A sum = row_sum(running.sum[i]);
    const int64_t row = queries.row[thread_row() + i * kSide];
    const int64_t at = row * shape.heads + place.head;
    A lse = running.max[i] + log(sum);
    if (row >= 0) {
      store_row(x, at, block.dim, running.max[i], sum, out[i], kDim / kSide);
      if (x.o_before != nullptr) lse = merge(x.lse_before[at], lse).lse;
    }
    __syncwarp();  // lse may be lse_before
    if (row >= 0 && thread_column() == 0) x.lse[at] = lse;
  }
}

template <typename A>
void forward(Context& ctx, const Tensors<A>& x, int64_t num_sequences,
             const AttentionShape& shape) {
  for_head_dim("attention", shape.head_dim, [&](auto width) {
    constexpr int kDim = decltype(width)::value;
    const int64_t tiles = ceil_div(shape.q_rows().length(), kTileRows<A, kDim>);
    launch("attention", ctx, forward_kernel<A, kDim>, {tiles, shape.heads, num_sequences}, kThreads,
           sizeof(Tiles<A, kDim>), x, shape);
  });
}

}  // namespace

void simt_attention(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o_before,
                    const Tensor& lse_before, Tensor& o, Tensor& lse, const AttentionShape& shape) {
  for_type(q.dtype, [&](auto tag) {
    using A = typename decltype(tag)::type;
    const Tensors<A> x{q.as<A>(),          kv.as<A>(), o_before.as<A>(),
                       lse_before.as<A>(), o.as<A>(),  lse.as<A>()};
    forward(ctx, x, q.dim(0) / shape.q_rows().length(), shape);
  });
}

}  // namespace tessera::kernels::cuda
