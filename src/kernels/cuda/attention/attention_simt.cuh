// Tiles of attention by ordinary arithmetic, for f64 and f32: a block of 16 x 16 threads, of
// which thread (y, x) has rows y, y + 16, … and columns x, x + 16, … of every product.
#pragma once

#include "kernels/cuda/attention/attention_tiles.cuh"

namespace tessera::kernels::cuda::simt {

constexpr int kSide = 16;
constexpr int kThreads = kSide * kSide;

// Rows of a tile: four such, with two of [tile, tile], must fit in the memory of a block.
template <typename A, int kDim>
constexpr int kTileRows = (kDim > 128 ? 32 : 64) / (sizeof(A) == 8 ? 2 : 1);

// Rows of an odd length keep the columns that a warp reads in different banks.
template <int kColumns>
constexpr int kStride = kColumns + 1;

__device__ inline int thread_row() { return static_cast<int>(threadIdx.x) / kSide; }
__device__ inline int thread_column() { return static_cast<int>(threadIdx.x) % kSide; }

// to[kTile, kDim] = factor * the first `dim` columns of the rows of a tile, zeros around them.
template <int kDim, int kTile, typename A>
__device__ inline void load_tile(const A* from, int64_t width, int dim,
                                 const TileTokens<kTile>& tokens, A factor, A* to) {
  for (int at = static_cast<int>(threadIdx.x); at < kTile * kDim; at += kThreads) {
    const int r = at / kDim, d = at % kDim;
    const int64_t row = tokens.row[r];
    to[r * kStride<kDim> + d] = row >= 0 && d < dim ? factor * from[row * width + d] : A{0};
  }
}

// Tiles in shared memory: rows of a head, and [tile, tile].
template <typename A, int kDim>
using RowTile = A[kTileRows<A, kDim> * kStride<kDim>];
template <typename A, int kDim>
using SquareTile = A[kTileRows<A, kDim> * kStride<kTileRows<A, kDim>>];

// Where the tensors of one call lie, as a block sees them: the same for queries and what goes with
// them, and for keys and values.
template <typename A, int kTile>
struct BlockRows {
  const AttentionShape& shape;
  int64_t num_sequences;
  BlockPlace place;
  int dim;
  int64_t width, kv_width;

  __device__ BlockRows(const AttentionShape& attention_shape, int64_t sequences, int64_t tiles,
                       int64_t heads)
      : shape(attention_shape),
        num_sequences(sequences),
        place(tiles, heads),
        dim(static_cast<int>(shape.head_dim)),
        width(shape.heads * dim),
        kv_width(2 * shape.kv_heads * dim) {}

  // What queries are multiplied by.
  [[nodiscard]] __device__ A scale() const { return A{1} / sqrt(static_cast<A>(dim)); }
  [[nodiscard]] __device__ SequenceOf sequence() const { return {place.sequence, num_sequences}; }
  __device__ void locate_queries(int64_t first, TileQueries<kTile>& queries) const {
    cuda::locate_queries(shape, place.sequence, num_sequences, first, queries);
  }
  __device__ void locate_keys(int64_t first, TileTokens<kTile>& keys) const {
    locate(shape.kv_rows(), place.sequence, num_sequences, first, kNoKey, keys);
  }
  template <int kDim>
  __device__ void load_queries(const A* from, int64_t head, const TileTokens<kTile>& queries,
                               A factor, A* to) const {
    load_tile<kDim>(from + head * dim, width, dim, queries, factor, to);
  }
  template <int kDim>
  __device__ void load_keys(const A* kv, int64_t kv_head, const TileTokens<kTile>& keys, A* k_tile,
                            A* v_tile) const {
    const A* from = kv + kv_head * dim;
    load_tile<kDim>(from, kv_width, dim, keys, A{1}, k_tile);
    load_tile<kDim>(from + shape.kv_heads * dim, kv_width, dim, keys, A{1}, v_tile);
  }
};

// A block of one tile of queries. The last tiles see the most keys: they begin first.
template <typename A, int kTile>
struct QueryBlock : BlockRows<A, kTile> {
  int64_t first;

  __device__ QueryBlock(const AttentionShape& shape, int64_t sequences, int64_t tiles)
      : BlockRows<A, kTile>(shape, sequences, tiles, shape.heads),
        first((tiles - 1 - this->place.tile) * kTile) {}
};

// Calls f() for every tile of keys that some queries of a block's tile see, with their tokens and
// rows in `keys`, k_tile and v_tile.
template <int kDim, int kTile, typename A, typename F>
__device__ inline void for_each_key_tile(const QueryBlock<A, kTile>& block, const A* kv,
                                         TileTokens<kTile>& keys, A* k_tile, A* v_tile, F&& f) {
  const AttentionShape& shape = block.shape;
  const int64_t kv_head = kv_head_of(shape, block.place.head);
  const int64_t last = min(block.first + kTile, shape.q_rows().length()) - 1;
  const TokenRange range = keys_seen(shape, block.sequence(), block.first, last);
  for (int64_t key = range.begin / kTile * kTile; key < range.end; key += kTile) {
    __syncthreads();  // the tile before is read no more
    block.locate_keys(key, keys);
    __syncthreads();
    block.template load_keys<kDim>(kv, kv_head, keys, k_tile, v_tile);
    __syncthreads();
    f();
  }
}

// out[i][j] += a[row i, :] . b[column j, :]
template <int kDim, int kRows, typename A>
__device__ inline void dot_rows(const A* a, const A* b, A (&out)[kRows][kRows]) {
#pragma unroll 4
  for (int d = 0; d < kDim; ++d) {
    A left[kRows], right[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      left[i] = a[(thread_row() + i * kSide) * kStride<kDim> + d];
      right[i] = b[(thread_column() + i * kSide) * kStride<kDim> + d];
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kRows; ++j) out[i][j] += left[i] * right[j];
    }
  }
}

// out[i][k] += sum over c of weights[row i, c] * b[c, column k]; transposed: weights[c, row i].
template <int kDim, bool kTransposed, int kRows, typename A>
__device__ inline void weigh_rows(const A* weights, const A* b, A (&out)[kRows][kDim / kSide]) {
  constexpr int kTile = kRows * kSide;
#pragma unroll 2
  for (int c = 0; c < kTile; ++c) {
    A left[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = thread_row() + i * kSide;
      left[i] = kTransposed ? weights[c * kStride<kTile> + row] : weights[row * kStride<kTile> + c];
    }
#pragma unroll
    for (int k = 0; k < kDim / kSide; ++k) {
      const A right = b[c * kStride<kDim> + thread_column() + k * kSide];
#pragma unroll
      for (int i = 0; i < kRows; ++i) out[i][k] += left[i] * right;
    }
  }
}

// Over the threads of a row, to all of them.
template <typename A>
__device__ inline A row_max(A x) {
  for (int offset = kSide / 2; offset > 0; offset /= 2) {
    const A other = __shfl_xor_sync(0xffffffffU, x, offset);
    x = other > x ? other : x;
  }
  return x;
}
template <typename A>
__device__ inline A row_sum(A x) {
  for (int offset = kSide / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(0xffffffffU, x, offset);
  }
  return x;
}

// Calls f(TypeTag<A>) with the type of arithmetic for tensors of `type`.
template <typename F>
void for_type(DType type, const F& f) {
  type == DType::kF64 ? f(TypeTag<double>{}) : f(TypeTag<float>{});
}

// Calls f(std::integral_constant<int, kDim>) with the smallest width of a tile that holds a head.
template <typename F>
void for_head_dim(const char* op, int64_t head_dim, const F& f) {
  if (head_dim <= 32) return f(std::integral_constant<int, 32>{});
  if (head_dim <= 64) return f(std::integral_constant<int, 64>{});
  if (head_dim <= 128) return f(std::integral_constant<int, 128>{});
  TESSERA_CHECK(head_dim <= 256, "{}: heads of {} columns, at most 256 are served", op, head_dim);
  f(std::integral_constant<int, 256>{});
}

}  // namespace tessera::kernels::cuda::simt
