// Rows of a table by token, and their gradient: tokens are sorted by row, so that every row is
// summed by one warp, in token order.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/counting_sort.cuh"
#include "kernels/cuda/device/packs.cuh"
#include "kernels/scratch.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kWarpsPerBlock = 8;

// ---- forward ----  a warp per token
template <typename T, int W>
__global__ void __launch_bounds__(kWarpsPerBlock * 32)
    take_rows(const int32_t* ids, const T* __restrict__ table, T* __restrict__ y, int64_t tokens,
              int64_t rows, int64_t num_packs, int64_t first_row) {
  const int64_t t = blockIdx.x * static_cast<int64_t>(kWarpsPerBlock) + threadIdx.x / 32;
  if (t >= tokens) return;
  const int64_t row = ids[t] - first_row;
  auto* to = reinterpret_cast<Pack<T, W>*>(y) + t * num_packs;
  const auto* from = reinterpret_cast<const Pack<T, W>*>(table) + row * num_packs;
  int64_t p = threadIdx.x % 32;
  if (row < 0 || row >= rows) {
    Pack<T, W> zero;
#pragma unroll
    for (int i = 0; i < W; ++i) zero.at[i] = narrow<T>(Acc<T>{0});
    for (; p < num_packs; p += 32) to[p] = zero;
    return;
  }
  constexpr int kInFlight = 4;
  for (; p + (kInFlight - 1) * 32 < num_packs; p += kInFlight * 32) {
    Pack<T, W> x[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) x[i] = from[p + i * 32];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) to[p + i * 32] = x[i];
  }
#pragma unroll 4
  for (; p < num_packs; p += 32) to[p] = from[p];
}

template <typename T, int W>
void launch_take(const Gpu& gpu, const Tensor& ids, const Tensor& table, const Tensor& y,
                 int64_t first_row) {
  const int64_t tokens = ids.numel(), blocks = ceil_div(tokens, kWarpsPerBlock);
  take_rows<T, W><<<static_cast<unsigned>(blocks), kWarpsPerBlock * 32, 0, gpu.stream()>>>(
      ids.as<int32_t>(), table.as<T>(), y.as<T>(), tokens, table.dim(0), table.dim(1) / W,
      first_row);
  check_launch("embedding");
}

// ---- gradient ----
// Tokens by the row they add to; those of rows that live elsewhere come last, as row `num_rows`.
struct Sorted {
  int32_t *rows, *tokens;
};

// The order of tokens by row, a few bits of the row after another. `next` is overwritten too.
Sorted sort_tokens(const Gpu& gpu, const Tensor& ids, int64_t first_row, int64_t num_rows,
                   Sorted sorted, Sorted next, int32_t* counts) {
  constexpr const char* kOp = "embedding_dw";
  constexpr int kBits = workspace::cuda::kEmbeddingDigitBits;
  const int64_t count = ids.numel();
  const int32_t* id = ids.as<int32_t>();
  for_each(kOp, gpu, count, [=] __device__(int64_t t) {
    const int64_t row = id[t] - first_row;
    sorted.rows[t] = static_cast<int32_t>(row >= 0 && row < num_rows ? row : num_rows);
    sorted.tokens[t] = static_cast<int32_t>(t);
  });
  for (int shift = 0; num_rows >> shift != 0; shift += kBits) {
    const int num_keys =
        static_cast<int>(std::min<int64_t>(int64_t{1} << kBits, (num_rows >> shift) + 1));
    counting_sort(
        kOp, gpu, count, num_keys, counts,
        [=] __device__(int64_t i) { return sorted.rows[i] >> shift & ((1 << kBits) - 1); },
        [] __device__(const KeyTotals&) {},
        [=] __device__(int64_t i, int /*key*/, int32_t at, const KeyTotals&) {
          next.rows[at] = sorted.rows[i];
          next.tokens[at] = sorted.tokens[i];
        });
    std::swap(sorted, next);
  }
  return sorted;
}

constexpr int kWindow = 8;  // sorted places whose rows, if they begin there, are one warp's

// What a lane adds at once: W columns of up to kDeep tokens.
template <typename T>
constexpr int kDeep = sizeof(T) == 2 ? 16 : 8;

// Bytes without a meaning yet: the compiler keeps them in whole registers.
template <int kBytes>
struct RawOf {
  using type = Pack<uint32_t, kBytes / 4>;
};
template <>
struct RawOf<2> {
  using type = uint16_t;
};

// Adds the tokens from place `begin` on, which have this row, to it. By all lanes of a warp; those
// without columns lend a hand with the places.
template <int W, typename T, typename G>
__device__ void add_tokens(const Sorted& sorted, int64_t count, int64_t begin, int32_t row,
                           const T* dy, G* dtable, int64_t width, int64_t column, bool accumulate) {
  using Raw = typename RawOf<W * sizeof(T)>::type;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool has_columns = column < width;
  G* const to = dtable + row * width + column;
  Acc<T> sum[W] = {};
  if (accumulate && has_columns) {
    const Pack<G, W> before = load_pack<W>(to);
#pragma unroll
    for (int c = 0; c < W; ++c) sum[c] = widen(before.at[c]);
  }
  for (int64_t at = begin;; at += 32) {
    const bool mine = at + lane < count && sorted.rows[at + lane] == row;
    const int32_t token = mine ? sorted.tokens[at + lane] : 0;
    const int here = __popc(__ballot_sync(0xffffffffU, mine));
    for (int first = 0; first < here; first += kDeep<T>) {
      Raw raw[kDeep<T>];
#pragma unroll
      for (int i = 0; i < kDeep<T>; ++i) {
        const int64_t t = __shfl_sync(0xffffffffU, token, (first + i) % 32);
        if (first + i < here && has_columns) {
          raw[i] = *reinterpret_cast<const Raw*>(dy + t * width + column);
        }
      }
#pragma unroll
      for (int i = 0; i < kDeep<T>; ++i) {
        if (first + i >= here) break;
        Pack<T, W> x;
        memcpy(&x, &raw[i], sizeof(x));
#pragma unroll
        for (int c = 0; c < W; ++c) sum[c] += widen(x.at[c]);
      }
    }
    if (here < 32) break;
  }
  if (has_columns) store_pack(to, narrow_pack<G>(sum));
}

// Warps along x: windows of the sorted places; y: slabs of 32 * W columns.
template <int W, typename T, typename G>
__global__ void __launch_bounds__(kWarpsPerBlock * 32)
    add_rows(Sorted sorted, int64_t count, int64_t num_rows, const T* dy, G* dtable, int64_t width,
             bool accumulate) {
  const int64_t window = blockIdx.x * static_cast<int64_t>(kWarpsPerBlock) + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t column = (blockIdx.y * int64_t{32} + lane) * W;
  // Lane 0 looks at the place before the window.
  const int64_t place = window * kWindow - 1 + lane;
  const bool looks = lane <= kWindow && place >= 0 && place < count;
  const int32_t row = looks ? sorted.rows[place] : -1;
  const int32_t row_before = __shfl_up_sync(0xffffffffU, row, 1);
  const bool begins = lane > 0 && row >= 0 && row < num_rows && row != row_before;
  for (unsigned heads = __ballot_sync(0xffffffffU, begins); heads != 0; heads &= heads - 1) {
    const int head = __ffs(static_cast<int>(heads)) - 1;
    add_tokens<W>(sorted, count, window * kWindow - 1 + head, __shfl_sync(0xffffffffU, row, head),
                  dy, dtable, width, column, accumulate);
  }
}

template <typename T, typename G, int W>
void launch_add_rows(const Gpu& gpu, const Sorted& sorted, int64_t count, const Tensor& dy,
                     const Tensor& dtable, bool accumulate) {
  const int64_t width = dy.dim(1);
  const dim3 blocks(static_cast<unsigned>(ceil_div(count, kWarpsPerBlock * kWindow)),
                    static_cast<unsigned>(ceil_div(width, 32 * W)));
  add_rows<W><<<blocks, kWarpsPerBlock * 32, 0, gpu.stream()>>>(
      sorted, count, dtable.dim(0), dy.as<T>(), dtable.as<G>(), width, accumulate);
  check_launch("embedding_dw");
}

}  // namespace

void embedding(Context& ctx, const Tensor& ids, const Tensor& table, Tensor& y, int64_t first_row) {
  if (y.numel() == 0) return;
  dispatch("embedding", y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(table.dim(1), table.as<T>(), y.as<T>())) {
      launch_take<T, kPack<T>>(*ctx.gpu, ids, table, y, first_row);
    } else {
      launch_take<T, 1>(*ctx.gpu, ids, table, y, first_row);
    }
  });
}

// The caller has zeroed dtable where it does not accumulate.
void embedding_dw(Context& ctx, const Tensor& ids, const Tensor& dy, Tensor& dtable,
                  int64_t first_row, bool accumulate) {
  constexpr const char* kOp = "embedding_dw";
  const int64_t count = ids.numel(), num_rows = dtable.dim(0);
  if (dy.numel() == 0 || num_rows == 0) return;
  TESSERA_CHECK(num_rows < INT32_MAX, "{}: {} rows", kOp, num_rows);
  Scratch scratch(kOp, ctx.workspace, workspace::cuda::embedding_dw(count));
  const auto take = [&] { return scratch.take<int32_t>(count); };
  const Sorted first{take(), take()}, second{take(), take()};
  auto* counts = scratch.take<int32_t>(workspace::cuda::sort_tiles(count)
                                       << workspace::cuda::kEmbeddingDigitBits);
  const Sorted sorted = sort_tokens(*ctx.gpu, ids, first_row, num_rows, first, second, counts);
  dispatch(kOp, dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kColumns = sizeof(T) == 8 ? 2 : 4;
    const bool aligned = dy.dim(1) % kColumns == 0 && packable<T>(kPack<T>, dy.as<T>()) &&
                         packable<T>(kPack<T>, dtable.as<std::byte>());
    with_gradient<T>(dtable, [&](auto gradient) {
      using G = typename decltype(gradient)::type;
      if (aligned) {
        launch_add_rows<T, G, kColumns>(*ctx.gpu, sorted, count, dy, dtable, accumulate);
      } else {
        launch_add_rows<T, G, 1>(*ctx.gpu, sorted, count, dy, dtable, accumulate);
      }
    });
  });
}

}  // namespace tessera::kernels::cuda
