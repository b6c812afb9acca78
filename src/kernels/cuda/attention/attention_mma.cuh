// Tiles of attention on tensor cores, for bf16 and f16 with sums in f32: mma.m16n8k16, operands in
// shared memory. A warp has 16 rows of every product; of 16 x 8 results a lane has those of rows
// lane / 4 and lane / 4 + 8 in columns lane % 4 * 2 and the next.
#pragma once

#include "kernels/cuda/attention/attention_tiles.cuh"
#include "kernels/cuda/device/tensor_core.cuh"

namespace tessera::kernels::cuda::mma {

using tensor_core::load_matrices;
using tensor_core::multiply_add;

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
constexpr int kWarpRows = 16;
constexpr float kLog2E = 1.4426950408889634F;
constexpr float kLn2 = 0.6931471805599453F;

// Rows of shared memory are longer than their columns by 16 bytes: eight of them, read at one
// column, then lie in different banks.
template <int kDim>
constexpr int kStride = kDim + 8;

__device__ inline int warp_index() { return static_cast<int>(threadIdx.x) / 32; }
__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % 32; }

__device__ inline uint32_t shared_address(const void* place) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(place));
}

// ---- copies that overlap with arithmetic ----  Zeros where there is nothing to copy.
__device__ inline void copy_4_bytes(void* to, const void* from, bool exists) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(exists ? 4 : 0));
}
// A barrier must follow, for what other threads copied.
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Where the rows of a tensor with heads lie, and whether everything can be moved in packs.
struct RowsOf {
  int64_t width;
  int dim;
  bool packed;
};

// to[kRows, kDim] = the first `dim` columns at `from` of the rows of a tile, zeros around them.
template <int kDim, int kRows, typename T>
__device__ inline void load_tile(const T* from, const RowsOf& rows, const TileTokens<kRows>& tokens,
                                 T* to) {
  if (rows.packed) {
    constexpr int kPacks = kDim / 8;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += kThreads) {
      const int r = i / kPacks, d = i % kPacks * 8;
      const int64_t row = tokens.row[r];
      const bool exists = row >= 0 && d < rows.dim;
      tensor_core::copy_chunk(shared_address(to + r * kStride<kDim> + d),
                              exists ? from + row * rows.width + d : from, exists);
    }
    return;
  }
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kDim; i += kThreads) {
    const int r = i / kDim, d = i % kDim;
    const int64_t row = tokens.row[r];
    to[r * kStride<kDim> + d] =
        row >= 0 && d < rows.dim ? from[row * rows.width + d] : narrow<T>(0.0F);
  }
}

// ---- products ----
template <typename T>
__device__ inline uint32_t pack_two(float low, float high) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&both);
  } else {
    const __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&both);
  }
}

// Calls f(n, i, column) for what a lane has of a product c[16, 8 * kTiles], which are c[n][i].
template <int kTiles, typename F>
__device__ inline void for_each_result(const F& f) {
  const int column = lane_index() % 4 * 2;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) f(n, i, n * 8 + column + i % 2);
  }
}

// c[16, 8 * kTiles] = a[16, kDim] b[8 * kTiles, kDim]^T
template <int kDim, int kTiles, typename T>
__device__ inline void dot_rows(const T* a, const T* b, float (&c)[kTiles][4]) {
  const int lane = lane_index();
  const uint32_t a_row = shared_address(a + lane % 16 * kStride<kDim> + lane / 16 * 8);
  const uint32_t b_row =
      shared_address(b + (lane / 16 * 8 + lane % 8) * kStride<kDim> + lane / 8 % 2 * 8);
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) c[n][i] = 0;
  }
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    uint32_t left[4];
    load_matrices<false>(left, a_row + k * 32);
#pragma unroll
    for (int n = 0; n < kTiles / 2; ++n) {
      uint32_t right[4];
      load_matrices<false>(right, b_row + (n * 16 * kStride<kDim> + k * 16) * 2);
      multiply_add<T>(c[2 * n], left, right[0], right[1]);
      multiply_add<T>(c[2 * n + 1], left, right[2], right[3]);
    }
  }
}

// out[16, kColumns] += weights[16, 8 * kTiles] b[8 * kTiles, kColumns]; rows of b are of kDim.
template <int kDim, int kColumns, int kTiles, typename T>
__device__ inline void weigh_rows(const float (&weights)[kTiles][4], const T* b,
                                  float (&out)[kColumns / 8][4]) {
  const int lane = lane_index();
  const uint32_t b_row = shared_address(b + lane % 16 * kStride<kDim> + lane / 16 * 8);
#pragma unroll
  for (int k = 0; k < kTiles / 2; ++k) {
    const float(&w0)[4] = weights[2 * k];
    const float(&w1)[4] = weights[2 * k + 1];
    const uint32_t left[4] = {pack_two<T>(w0[0], w0[1]), pack_two<T>(w0[2], w0[3]),
                              pack_two<T>(w1[0], w1[1]), pack_two<T>(w1[2], w1[3])};
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      uint32_t right[4];
      load_matrices<true>(right, b_row + (k * 16 * kStride<kDim> + n * 16) * 2);
      multiply_add<T>(out[2 * n], left, right[0], right[1]);
      multiply_add<T>(out[2 * n + 1], left, right[2], right[3]);
    }
  }
}

__device__ inline float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Over the four lanes that share a row.
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}
__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}

// ---- a tile of queries, and the keys that it sees ----

// The rows of a tile of queries that a warp has, and the two of them that a lane has.
struct WarpQueries {
  int first_row;
  int row[2];
  int32_t query[2];  // their positions
  int32_t start[2];  // the first that they see
  int32_t first_query, last_query, last_start;

  template <int kQueries>
  __device__ explicit WarpQueries(const TileQueries<kQueries>& queries)
      : first_row(warp_index() * kWarpRows),
        row{first_row + lane_index() / 4, first_row + lane_index() / 4 + 8},
        query{queries.position[row[0]], queries.position[row[1]]},
        start{queries.start[row[0]], queries.start[row[1]]},
        first_query(queries.position[first_row]),
        last_query(warp_max(queries.position[first_row + lane_index() % kWarpRows])),
        last_start(warp_max(queries.start[first_row + lane_index() % kWarpRows])) {}

  // Whether all of its queries see all keys from one position to another.
  [[nodiscard]] __device__ bool all_see(int32_t first_key, int32_t last_key) const {
    return last_key <= first_query && first_key >= last_start;
  }
};

// A block's walk over the keys that some of its kQueries queries see, kStep at a time. While the
// tiles of one step are in use, the rows of the next are copied.
template <typename T, int kDim, int kQueries, int kStep>
struct KeyWalk {
  const AttentionShape& shape;
  int64_t num_sequences;
  BlockPlace place;
  int64_t first, last;  // of the queries
  int dim;
  RowsOf q_rows, kv_rows;
  const T *from_keys, *from_values;
  TileTokens<kStep>* keys;  // [3]: in use, being copied, and of the step before
  T *k_tiles, *v_tiles;     // [2, kStep, kStride]
  int64_t first_key;
  int steps;

  __device__ KeyWalk(const AttentionShape& attention_shape, int64_t sequences, int64_t tiles,
                     bool packed, const T* kv, TileTokens<kStep>* tokens, T* to_keys)
      : shape(attention_shape),
        num_sequences(sequences),
        place(tiles, shape.heads),
        // The last tiles see the most keys: they begin first.
        first((tiles - 1 - place.tile) * kQueries),
        last(std::min(first + kQueries, shape.q_rows().length()) - 1),
        dim(static_cast<int>(shape.head_dim)),
        q_rows{shape.heads * dim, dim, packed},
        kv_rows{2 * shape.kv_heads * dim, dim, packed},
        from_keys(kv + kv_head_of(shape, place.head) * dim),
        from_values(from_keys + shape.kv_heads * dim),
        keys(tokens),
        k_tiles(to_keys),
        v_tiles(k_tiles + 2 * kStep * kStride<kDim>) {
    const TokenRange range = keys_seen(shape, {place.sequence, num_sequences}, first, last);
    first_key = range.begin / kStep * kStep;
    steps =
        range.end > first_key ? static_cast<int>((range.end - first_key + kStep - 1) / kStep) : 0;
  }

  __device__ void locate_queries(TileQueries<kQueries>& queries) const {
    cuda::locate_queries(shape, place.sequence, num_sequences, first, queries);
  }
  __device__ void load_queries(const T* from, const TileTokens<kQueries>& queries, T* to) const {
    load_tile<kDim>(from + place.head * dim, q_rows, queries, to);
  }
  __device__ void locate_keys(int step) const {
    locate(shape.kv_rows(), place.sequence, num_sequences, first_key + step * kStep, kNoKey,
           keys[step % 3]);
  }
  __device__ void load_keys(int step) const {
    load_tile<kDim>(from_keys, kv_rows, keys[step % 3], k_tiles + tile(step));
    load_tile<kDim>(from_values, kv_rows, keys[step % 3], v_tiles + tile(step));
  }
  // Waits for the tiles of a step, and starts the copies for the next.
  __device__ void arrive(int step) const {
    if (step + 1 < steps) locate_keys(step + 1);
    wait_for_copies();
    __syncthreads();  // this tile is here, and the one before is read no more
    if (step + 1 < steps) load_keys(step + 1);
  }
  [[nodiscard]] __device__ int tile(int step) const { return step % 2 * kStep * kStride<kDim>; }

  // Locates the queries and the first keys, and starts the copies of both: load_rows() those of
  // the queries.
  template <typename F>
  __device__ void begin(TileQueries<kQueries>& queries, const F& load_rows) const {
    locate_queries(queries);
    locate_keys(0);
    __syncthreads();
    if (steps > 0) {
      load_rows();
      load_keys(0);
    }
  }
  // Calls f(tokens, tile of keys, tile of values) for every step with keys that some row of the
  // warp may see.
  template <typename F>
  __device__ void for_each_step(const WarpQueries& mine, const F& f) const {
    for (int step = 0; step < steps; ++step) {
      arrive(step);
      const TileTokens<kStep>& here = keys[step % 3];
      if (here.position[0] > mine.last_query) continue;
      f(here, k_tiles + tile(step), v_tiles + tile(step));
    }
  }
};

// What is computed, in the storage type or in f32.
template <typename T>
struct Output {
  void* data;
  bool wide;

  // Columns d and d + 1, where they exist, of the row that begins at `row`.
  __device__ void set_two(int64_t row, int d, const RowsOf& rows, float x, float y) const {
    if (wide) {
      store(static_cast<float*>(data) + row + d, d, rows, x, y);
    } else {
      store(static_cast<T*>(data) + row + d, d, rows, narrow<T>(x), narrow<T>(y));
    }
  }

 private:
  template <typename O>
  __device__ static void store(O* to, int d, const RowsOf& rows, O x, O y) {
    if (rows.packed) {
      if (d < rows.dim) *reinterpret_cast<Pack<O, 2>*>(to) = {x, y};
      return;
    }
    if (d < rows.dim) to[0] = x;
    if (d + 1 < rows.dim) to[1] = y;
  }
};

// Calls f(TypeTag<T>) with the type of tensors of `type`.
template <typename F>
void for_type(DType type, const F& f) {
  type == DType::kBF16 ? f(TypeTag<__nv_bfloat16>{}) : f(TypeTag<__half>{});
}

// Calls f(std::integral_constant<int, kDim>, std::bool_constant<kDropout>) with the smallest width
// of a tile that holds a head, and whether anything is dropped.
template <typename F>
void for_tiles_of(const char* op, const AttentionShape& shape, const F& f) {
  const auto with_width = [&](auto width) {
    shape.dropout.on() ? f(width, std::true_type{}) : f(width, std::false_type{});
  };
  if (shape.head_dim <= 64) return with_width(std::integral_constant<int, 64>{});
  if (shape.head_dim <= 128) return with_width(std::integral_constant<int, 128>{});
  TESSERA_CHECK(shape.head_dim <= 256, "{}: heads of {} columns, at most 256 are served", op,
                shape.head_dim);
  with_width(std::integral_constant<int, 256>{});
}

}  // namespace tessera::kernels::cuda::mma
