// Products of experts: one launch for all experts and blocks. Every tile of the result belongs to
// one expert; a block of threads finds out which by itself, since the counts are on the GPU.
//
// 16-bit types whose rows are whole packs go through the tensor cores, everything else through
// plain arithmetic. Sums run over k, or over the rows block by block, in order.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/packs.cuh"
#include "kernels/cuda/device/plain_tile.cuh"
#include "kernels/cuda/device/tensor_core.cuh"
#include "kernels/cuda/experts/expert_rows.cuh"

namespace tessera::kernels::cuda {
namespace {

using tensor_core::Lie;
using tessera::cuda::check;

extern __shared__ int4 shared_memory[];

// y[row,n] = x[row,k] m, where m is w[expert], stored as [n,k] (along k) or as [k,n] (across it).
template <typename T>
struct RowProduct {
  ExpertRows rows;
  const T* x;
  const T* w;
  T* y;
  int n, k;
  int col_tiles;
};

// dw[expert][n,k] (+)= dy[rows of it]^T x[rows of it]
template <typename T, typename G>
struct WeightProduct {
  ExpertRows rows;
  const T* dy;
  const T* x;
  G* dw;
  int n, k;
  int row_tiles, col_tiles;
  bool accumulate;
};

// A tile of the rows of one expert; `row_at` (shared memory) says where each is, -1: nowhere.
struct RowTile {
  int expert, rows_first, col_first;
};
template <int kTile>
__device__ RowTile find_tile(const ExpertRows& rows, const ExpertTable& table, int64_t tile,
                             int col_tiles, int* row_at) {
  const int experts = rows.local + 1;
  const int expert = table.expert_of(tile / col_tiles, experts);
  const int row_tiles = table.tiles_before[expert + 1] - table.tiles_before[expert];
  // Tiles that follow each other share columns: the weights of the expert are read once.
  const auto within =
      static_cast<int>(tile - static_cast<int64_t>(table.tiles_before[expert]) * col_tiles);
  const RowTile found{expert, within % row_tiles * kTile, within / row_tiles * kTile};
  for (int i = static_cast<int>(threadIdx.x); i < kTile; i += static_cast<int>(blockDim.x)) {
    row_at[i] = table.row_of(expert, found.rows_first + i, rows.blocks);
  }
  __syncthreads();
  return found;
}

// In packs of N.
template <int kTile, int N, typename T>
__device__ void zero_tile(T* y, int n, int col_first, const int* row_at) {
  constexpr int kRowPacks = kTile / N;
  Pack<T, N> zero;
#pragma unroll
  for (int i = 0; i < N; ++i) zero.at[i] = narrow<T>(0);
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kRowPacks;
       i += static_cast<int>(blockDim.x)) {
    const int row = row_at[i / kRowPacks], col = col_first + i % kRowPacks * N;
    if (row < 0 || col >= n) continue;
    *reinterpret_cast<Pack<T, N>*>(y + static_cast<int64_t>(row) * n + col) = zero;
  }
}

// ---- tensor cores ----

template <typename T>
__device__ void store_pair(T* at, float first, float second) {
  *reinterpret_cast<Pack<T, 2>*>(at) = {narrow<T>(first), narrow<T>(second)};
}

template <typename T, Lie kLieW>
__global__ void __launch_bounds__(tensor_core::kThreads, 2)
    row_product_fast(const RowProduct<T> p) {
  namespace tc = tensor_core;
  auto* const slices = reinterpret_cast<std::byte*>(shared_memory);
  auto* const row_at = reinterpret_cast<int*>(slices + tc::kSharedBytes);
  const ExpertTable table = ExpertTable::build(p.rows, tc::kTile, row_at + tc::kTile);
  const int64_t tiles = static_cast<int64_t>(table.tiles_before[p.rows.local + 1]) * p.col_tiles;
  const int chunk_a = tc::load_chunk<Lie::kAlongK>(), chunk_w = tc::load_chunk<kLieW>();
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const RowTile t = find_tile<tc::kTile>(p.rows, table, tile, p.col_tiles, row_at);
    if (t.expert == p.rows.local) {
      zero_tile<tc::kTile, kPack<T>>(p.y, p.n, t.col_first, row_at);
      __syncthreads();  // row_at changes
      continue;
    }
    const T* const w = p.w + static_cast<int64_t>(t.expert) * p.n * p.k;
    const T* x_rows[tc::kChunks];
#pragma unroll
    for (int j = 0; j < tc::kChunks; ++j) {
      const int row = row_at[tc::load_row<Lie::kAlongK>(j)];
      x_rows[j] = row < 0 ? nullptr : p.x + static_cast<int64_t>(row) * p.k;
    }
    const auto load = [&](int slice, uint32_t to_x, uint32_t to_w) {
      const int k0 = slice * tc::kDepth;
#pragma unroll
      for (int j = 0; j < tc::kChunks; ++j) {
        const int row = tc::load_row<Lie::kAlongK>(j), at = k0 + chunk_a * tc::kChunk;
        const bool valid = x_rows[j] != nullptr && at < p.k;
        tc::copy_chunk(to_x + tc::chunk_offset<Lie::kAlongK>(row, chunk_a),
                       valid ? x_rows[j] + at : p.x, valid);
      }
#pragma unroll
      for (int j = 0; j < tc::kChunks; ++j) {
        const int row = tc::load_row<kLieW>(j);
        const int along = kLieW == Lie::kAlongK ? t.col_first + row : k0 + row;
        const int at = (kLieW == Lie::kAlongK ? k0 : t.col_first) + chunk_w * tc::kChunk;
        const int rows_of_w = kLieW == Lie::kAlongK ? p.n : p.k;
        const int width = kLieW == Lie::kAlongK ? p.k : p.n;
        const bool valid = along < rows_of_w && at < width;
        tc::copy_chunk(to_w + tc::chunk_offset<kLieW>(row, chunk_w),
                       valid ? w + static_cast<int64_t>(along) * width + at : p.w, valid);
      }
    };
    tc::Sums sums;
    const int num_slices = (p.k + tc::kDepth - 1) / tc::kDepth;
    tc::multiply_tile<T, Lie::kAlongK, kLieW>(slices, num_slices, load, sums);
    tc::for_each_pair(sums, [&](int row, int col, float first, float second) {
      const int to = row_at[row];
      if (to < 0 || t.col_first + col >= p.n) return;
      store_pair(p.y + static_cast<int64_t>(to) * p.n + t.col_first + col, first, second);
    });
    __syncthreads();  // row_at changes
  }
}

// The runs of an expert in slices of `depth` rows: which rows slice s = 0, 1, … has.
struct RunCursor {
  const Run* runs;
  int blocks, depth;
  int block = 0, at = 0;

  __device__ void skip_finished() {
    while (block < blocks && at >= runs[block].count) {
      ++block;
      at = 0;
    }
  }
  __device__ int slices() const {
    int sum = 0;
    for (int b = 0; b < blocks; ++b) sum += (runs[b].count + depth - 1) / depth;
    return sum;
  }
  // Rows of the present slice.
  __device__ int first_row() const { return runs[block].first + at; }
  __device__ int num_rows() const { return runs[block].count - at; }  // may be more than `depth`
  __device__ void next() {
    at += depth;
    skip_finished();
  }
};

struct WeightTile {
  int expert, row_first, col_first;
};
template <typename T, typename G>
__device__ WeightTile weight_tile(const WeightProduct<T, G>& p, int size) {
  const int tile = static_cast<int>(blockIdx.x) % (p.row_tiles * p.col_tiles);
  const int expert = static_cast<int>(blockIdx.x) / (p.row_tiles * p.col_tiles);
  return {expert, tile / p.col_tiles * size, tile % p.col_tiles * size};
}

template <typename T, typename G>
__global__ void __launch_bounds__(tensor_core::kThreads, 2)
    weight_product_fast(const WeightProduct<T, G> p) {
  namespace tc = tensor_core;
  constexpr Lie kLie = Lie::kAcrossK;
  auto* const slices = reinterpret_cast<std::byte*>(shared_memory);
  const WeightTile t = weight_tile(p, tc::kTile);
  RunCursor cursor{runs_of(p.rows, t.expert, slices + tc::kSharedBytes), p.rows.blocks, tc::kDepth};
  const int num_slices = cursor.slices();
  if (num_slices == 0 && p.accumulate) return;
  cursor.skip_finished();
  const int chunk = tc::load_chunk<kLie>();
  const int dy_col = t.row_first + chunk * tc::kChunk, x_col = t.col_first + chunk * tc::kChunk;
  const auto load = [&](int /*slice*/, uint32_t to_dy, uint32_t to_x) {
    const int64_t first = cursor.first_row();
    const int count = cursor.num_rows();
#pragma unroll
    for (int j = 0; j < tc::kChunks; ++j) {
      const int row = tc::load_row<kLie>(j);
      const uint32_t offset = tc::chunk_offset<kLie>(row, chunk);
      const bool dy_valid = row < count && dy_col < p.n, x_valid = row < count && x_col < p.k;
      tc::copy_chunk(to_dy + offset, dy_valid ? p.dy + (first + row) * p.n + dy_col : p.dy,
                     dy_valid);
      tc::copy_chunk(to_x + offset, x_valid ? p.x + (first + row) * p.k + x_col : p.x, x_valid);
    }
    cursor.next();
  };
  tc::Sums sums;
  tc::multiply_tile<T, kLie, kLie>(slices, num_slices, load, sums);
  G* const dw = p.dw + static_cast<int64_t>(t.expert) * p.n * p.k;
  tc::for_each_pair(sums, [&](int row, int col, float first, float second) {
    if (t.row_first + row >= p.n || t.col_first + col >= p.k) return;
    G* const to = dw + static_cast<int64_t>(t.row_first + row) * p.k + t.col_first + col;
    float sums_of[2] = {first, second};
    if (p.accumulate) {
      const Pack<G, 2> old = load_pack<2>(to);
      sums_of[0] += widen(old.at[0]);
      sums_of[1] += widen(old.at[1]);
    }
    store_pack(to, narrow_pack<G>(sums_of));
  });
}

// ---- plain arithmetic ----

template <typename T, Lie kLieW>
__global__ void __launch_bounds__(plain::kThreads) row_product_plain(const RowProduct<T> p) {
  using A = Acc<T>;
  __shared__ plain::Slice<A> left, right;
  auto* const row_at = reinterpret_cast<int*>(shared_memory);
  const ExpertTable table = ExpertTable::build(p.rows, plain::kTile, row_at + plain::kTile);
  const int64_t tiles = static_cast<int64_t>(table.tiles_before[p.rows.local + 1]) * p.col_tiles;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const RowTile t = find_tile<plain::kTile>(p.rows, table, tile, p.col_tiles, row_at);
    if (t.expert == p.rows.local) {
      zero_tile<plain::kTile, 1>(p.y, p.n, t.col_first, row_at);
      __syncthreads();  // row_at changes
      continue;
    }
    const T* const w = p.w + static_cast<int64_t>(t.expert) * p.n * p.k;
    A sums[4][4] = {};
    for (int k0 = 0; k0 < p.k; k0 += plain::kDepth) {
      plain::fill_slice<Lie::kAlongK>(left, [&](int i, int k) {
        const int row = row_at[i];
        return row < 0 || k0 + k >= p.k ? A{0}
                                        : widen(p.x[static_cast<int64_t>(row) * p.k + k0 + k]);
      });
      plain::fill_slice<kLieW>(right, [&](int i, int k) {
        const int64_t col = t.col_first + i, at = k0 + k;
        if (col >= p.n || at >= p.k) return A{0};
        return widen(w[kLieW == Lie::kAlongK ? col * p.k + at : at * p.n + col]);
      });
      __syncthreads();
      plain::multiply_slice(left, right, sums);
      __syncthreads();
    }
    plain::for_each(sums, [&](int row, int col, A sum) {
      const int to = row_at[row];
      if (to < 0 || t.col_first + col >= p.n) return;
      p.y[static_cast<int64_t>(to) * p.n + t.col_first + col] = narrow<T>(sum);
    });
    __syncthreads();  // row_at changes
  }
}

template <typename T, typename G>
__global__ void __launch_bounds__(plain::kThreads)
    weight_product_plain(const WeightProduct<T, G> p) {
  using A = Acc<T>;
  __shared__ plain::Slice<A> left, right;
  const WeightTile t = weight_tile(p, plain::kTile);
  RunCursor cursor{runs_of(p.rows, t.expert, shared_memory), p.rows.blocks, plain::kDepth};
  const int num_slices = cursor.slices();
  if (num_slices == 0 && p.accumulate) return;
  cursor.skip_finished();
  A sums[4][4] = {};
  for (int s = 0; s < num_slices; ++s) {
    const int64_t first = cursor.first_row();
    const int count = cursor.num_rows();
    plain::fill_slice<Lie::kAcrossK>(left, [&](int i, int k) {
      const int col = t.row_first + i;
      return k >= count || col >= p.n ? A{0} : widen(p.dy[(first + k) * p.n + col]);
    });
    plain::fill_slice<Lie::kAcrossK>(right, [&](int i, int k) {
      const int col = t.col_first + i;
      return k >= count || col >= p.k ? A{0} : widen(p.x[(first + k) * p.k + col]);
    });
    __syncthreads();
    plain::multiply_slice(left, right, sums);
    __syncthreads();
    cursor.next();
  }
  G* const dw = p.dw + static_cast<int64_t>(t.expert) * p.n * p.k;
  plain::for_each(sums, [&](int row, int col, A sum) {
    if (t.row_first + row >= p.n || t.col_first + col >= p.k) return;
    G& to = dw[static_cast<int64_t>(t.row_first + row) * p.k + t.col_first + col];
    to = narrow<G>(p.accumulate ? widen(to) + sum : sum);
  });
}

// ---- launching ----

int64_t last_dim(const Tensor& x) { return x.dim(x.num_dims - 1); }

// Blocks that the GPU runs at once, for kernels that go from tile to tile by themselves.
template <typename Params>
void launch_over_tiles(const char* op, const Gpu& gpu, void (*kernel)(Params), const Params& p,
                       int64_t max_tiles, int threads, int64_t shared_bytes) {
  const auto shared = static_cast<int>(shared_bytes);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), op);
  int resident = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads,
                                                      static_cast<size_t>(shared)),
        op);
  TESSERA_CHECK(resident > 0, "{}: {} bytes of shared memory are too many", op, shared);
  const int64_t blocks =
      std::min(max_tiles, static_cast<int64_t>(resident) * gpu.multiprocessors());
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
           static_cast<unsigned>(shared), gpu.stream()>>>(p);
  check_launch(op);
}

template <typename T, Lie kLieW>
void row_product(const char* op, const Gpu& gpu, RowProduct<T> p) {
  const int64_t table = ExpertTable::size_bytes(p.rows);
  if constexpr (sizeof(T) == 2) {
    constexpr int kTile = tensor_core::kTile;
    if (packable<T>(p.k, p.x, p.w, p.y) && p.n % kPack<T> == 0) {
      p.col_tiles = static_cast<int>(ceil_div(p.n, kTile));
      return launch_over_tiles(op, gpu, row_product_fast<T, kLieW>, p,
                               p.rows.max_tiles(kTile) * p.col_tiles, tensor_core::kThreads,
                               tensor_core::kSharedBytes + kTile * int64_t{sizeof(int)} + table);
    }
  }
  p.col_tiles = static_cast<int>(ceil_div(p.n, plain::kTile));
  launch_over_tiles(op, gpu, row_product_plain<T, kLieW>, p,
                    p.rows.max_tiles(plain::kTile) * p.col_tiles, plain::kThreads,
                    plain::kTile * int64_t{sizeof(int)} + table);
}

template <typename T, typename G>
void weight_product(const char* op, const Gpu& gpu, WeightProduct<T, G> p) {
  const int64_t runs = static_cast<int64_t>(p.rows.blocks) * int64_t{sizeof(Run)};
  const auto launch = [&](auto* kernel, int tile, int threads, int64_t shared_bytes) {
    p.row_tiles = static_cast<int>(ceil_div(p.n, tile));
    p.col_tiles = static_cast<int>(ceil_div(p.k, tile));
    const int64_t tiles = static_cast<int64_t>(p.rows.local) * p.row_tiles * p.col_tiles;
    TESSERA_CHECK(tiles <= INT32_MAX, "{}: {} tiles are too many", op, tiles);
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          op);
    kernel<<<static_cast<unsigned>(tiles), static_cast<unsigned>(threads),
             static_cast<unsigned>(shared_bytes), gpu.stream()>>>(p);
    check_launch(op);
  };
  if constexpr (sizeof(T) == 2) {
    if (packable<T>(p.k, p.x, p.dy, p.dw) && p.n % kPack<T> == 0) {
      return launch(weight_product_fast<T, G>, tensor_core::kTile, tensor_core::kThreads,
                    tensor_core::kSharedBytes + runs);
    }
  }
  launch(weight_product_plain<T, G>, plain::kTile, plain::kThreads, runs);
}

}  // namespace

void expert_linear(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& counts,
                   Tensor& y) {
  constexpr const char* kOp = "expert_linear";
  const int64_t k = last_dim(x), n = last_dim(y), num_rows = x.numel() / std::max<int64_t>(k, 1);
  const ExpertRows rows = expert_rows(kOp, counts, num_rows);
  if (y.numel() == 0) return;
  dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const RowProduct<T> p{rows,      x.as<T>(),           w.as<T>(),
                          y.as<T>(), static_cast<int>(n), static_cast<int>(k)};
    row_product<T, Lie::kAlongK>(kOp, *ctx.gpu, p);
  });
}

void expert_linear_dx(Context& ctx, const Tensor& dy, const Tensor& w, const Tensor& counts,
                      Tensor& dx) {
  constexpr const char* kOp = "expert_linear_dx";
  const int64_t k = last_dim(dy), n = last_dim(dx), num_rows = dx.numel() / std::max<int64_t>(n, 1);
  const ExpertRows rows = expert_rows(kOp, counts, num_rows);
  if (dx.numel() == 0) return;
  dispatch(kOp, dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const RowProduct<T> p{rows,       dy.as<T>(),          w.as<T>(),
                          dx.as<T>(), static_cast<int>(n), static_cast<int>(k)};
    row_product<T, Lie::kAcrossK>(kOp, *ctx.gpu, p);
  });
}

void expert_linear_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& counts,
                      Tensor& dw, bool accumulate) {
  constexpr const char* kOp = "expert_linear_dw";
  const int64_t n = last_dim(dy), k = last_dim(x), num_rows = dy.numel() / std::max<int64_t>(n, 1);
  const ExpertRows rows = expert_rows(kOp, counts, num_rows);
  if (dw.numel() == 0) return;
  dispatch(kOp, dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_gradient<T>(dw, [&](auto gradient) {
      using G = typename decltype(gradient)::type;
      const WeightProduct<T, G> p{.rows = rows,
                                  .dy = dy.as<T>(),
                                  .x = x.as<T>(),
                                  .dw = dw.as<G>(),
                                  .n = static_cast<int>(n),
                                  .k = static_cast<int>(k),
                                  .accumulate = accumulate};
      weight_product(kOp, *ctx.gpu, p);
    });
  });
}

}  // namespace tessera::kernels::cuda
