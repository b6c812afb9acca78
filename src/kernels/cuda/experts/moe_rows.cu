// Tokens to the rows of their experts, and back. A slot outside the rows is no row: where a block
// overflowed, the step is lost, but nothing is read or written out of place.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/counting_sort.cuh"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/experts/warp_rows.cuh"
#include "kernels/scratch.h"

namespace tessera::kernels::cuda {
namespace {

using tessera::cuda::check;

template <typename T, int W>
__device__ Pack<T, W> zeros() {
  Pack<T, W> zero;
#pragma unroll
  for (int i = 0; i < W; ++i) zero.at[i] = narrow<T>(Acc<T>{0});
  return zero;
}

// ---- places ----
struct Blocks {
  int experts, local, peers;
  int64_t capacity;
};

// Tells the host of a block with more rows than room. By one thread: the first such block is named.
__device__ void find_overflow(const Blocks& b, const KeyTotals& all, Trouble* trouble) {
  for (int p = 0; p < b.peers; ++p) {
    const int last = (p + 1) * b.local - 1;
    const int64_t rows = all.begins[last] + all.totals[last] - all.begins[p * b.local];
    if (rows <= b.capacity || trouble->code != Trouble::kNone) continue;
    trouble->detail[0] = p;
    trouble->detail[1] = static_cast<int32_t>(rows);
    trouble->detail[2] = static_cast<int32_t>(b.capacity);
    __threadfence_system();
    trouble->code = Trouble::kBlockOverflow;
  }
}

void place_rows(const Gpu& gpu, const Tensor& ids, const Blocks& b, int32_t* tile_counts,
                int32_t* counts, int32_t* used, int32_t* slots) {
  const int32_t* id = ids.as<int32_t>();
  Trouble* trouble = gpu.trouble();
  counting_sort(
      "dispatch_rows", gpu, ids.numel(), b.experts, tile_counts,
      [=] __device__(int64_t i) { return id[i]; },
      [=] __device__(const KeyTotals& all) {
        if (blockIdx.x != 0) return;
        for (int e = static_cast<int>(threadIdx.x); e < b.experts; e += kTileThreads) {
          const int64_t before = all.begins[e] - all.begins[e - e % b.local];
          const int64_t room = max(int64_t{0}, b.capacity - before);
          counts[e] = static_cast<int32_t>(min(room, int64_t{all.totals[e]}));
          if (e % b.local == b.local - 1) {
            used[e / b.local] = static_cast<int32_t>(min(b.capacity, before + all.totals[e]));
          }
        }
        if (threadIdx.x == 0) find_overflow(b, all, trouble);
      },
      [=] __device__(int64_t i, int expert, int32_t at, const KeyTotals& all) {
        const int peer = expert / b.local;
        const int64_t row = at - all.begins[peer * b.local];
        slots[i] = row < b.capacity ? static_cast<int32_t>(peer * b.capacity + row) : -1;
      });
}

// ---- rows ----  Warps below `tokens` copy a token to its rows, the others clear a row not in use.
template <typename T, int W>
__global__ void __launch_bounds__(kThreads)
    fill_rows(const T* __restrict__ x, const int32_t* __restrict__ slots,
              const int32_t* __restrict__ used, T* __restrict__ rows, int64_t tokens, int k,
              int64_t num_packs, int64_t num_rows, int64_t capacity) {
  const int64_t t = warp_index(), row = t - tokens;
  auto* out = reinterpret_cast<Pack<T, W>*>(rows);
  if (t >= tokens) {
    if (row >= num_rows || row % capacity < used[row / capacity]) return;
    for (int64_t p = lane_index(); p < num_packs; p += 32) out[row * num_packs + p] = zeros<T, W>();
    return;
  }
  const auto* in = reinterpret_cast<const Pack<T, W>*>(x) + t * num_packs;
#pragma unroll 4
  for (int64_t p = lane_index(); p < num_packs; p += 32) {
    const Pack<T, W> pack = in[p];
    for (int j = 0; j < k; ++j) {
      const int64_t slot = slots[t * k + j];
      if (slot >= 0 && slot < num_rows) out[slot * num_packs + p] = pack;
    }
  }
}

template <typename T, int W>
void launch_fill(const Gpu& gpu, const Tensor& x, const Tensor& slots, const int32_t* used,
                 const Tensor& rows, const Blocks& b) {
  const int64_t tokens = x.dim(0), num_rows = b.peers * b.capacity;
  fill_rows<T, W><<<blocks_for(tokens + num_rows), kThreads, 0, gpu.stream()>>>(
      x.as<T>(), slots.as<int32_t>(), used, rows.as<T>(), tokens, static_cast<int>(slots.dim(1)),
      x.dim(1) / W, num_rows, b.capacity);
  check_launch("dispatch_rows");
}

// y[t] = sum over j of (gates[t,j] *) rows[slots[t,j]]; a warp per token and 32 packs.
template <typename T, int W, bool kGated>
__global__ void __launch_bounds__(kThreads)
    sum_rows(const T* rows, const int32_t* slots, const Acc<T>* gates, T* y, int64_t tokens, int k,
             int64_t num_packs, int64_t num_rows) {
  using A = Acc<T>;
  const int64_t t = warp_index(), p = blockIdx.y * int64_t{32} + lane_index();
  if (t >= tokens || p >= num_packs) return;
  const auto* in = reinterpret_cast<const Pack<T, W>*>(rows);
  A sum[W] = {};
#pragma unroll 4
  for (int j = 0; j < k; ++j) {
    const int64_t slot = slots[t * k + j];
    if (slot < 0 || slot >= num_rows) continue;
    const Pack<T, W> row = in[slot * num_packs + p];
    const A gate = kGated ? gates[t * k + j] : A{1};
#pragma unroll
    for (int i = 0; i < W; ++i) sum[i] += kGated ? gate * widen(row.at[i]) : widen(row.at[i]);
  }
  Pack<T, W> out;
#pragma unroll
  for (int i = 0; i < W; ++i) out.at[i] = narrow<T>(sum[i]);
  reinterpret_cast<Pack<T, W>*>(y)[t * num_packs + p] = out;
}

template <typename T, int W, bool kGated>
void launch_sum(const char* op, const Gpu& gpu, const Tensor& rows, const Tensor& slots,
                const Acc<T>* gates, const Tensor& y) {
  const int64_t num_packs = y.dim(1) / W;
  const dim3 blocks(blocks_for(y.dim(0)), static_cast<unsigned>(ceil_div(num_packs, 32)));
  sum_rows<T, W, kGated><<<blocks, kThreads, 0, gpu.stream()>>>(
      rows.as<T>(), slots.as<int32_t>(), gates, y.as<T>(), y.dim(0), static_cast<int>(slots.dim(1)),
      num_packs, rows.numel() / y.dim(1));
  check_launch(op);
}

// ---- gradient of combine_rows ----
// A choice of a token: its row's gradient and its gate's; a warp per choice.
template <typename T, int W>
__global__ void __launch_bounds__(kThreads)
    spread_rows(const T* dy, const T* rows, const int32_t* slots, const Acc<T>* gates, T* d_rows,
                Acc<T>* d_gates, uint8_t* in_use, int64_t choices, int k, int64_t num_packs,
                int64_t num_rows) {
  using A = Acc<T>;
  const int64_t i = warp_index();
  if (i >= choices) return;
  const int lane = lane_index();
  const int64_t slot = slots[i];
  const bool has_row = slot >= 0 && slot < num_rows;
  const A gate = gates[i];
  const auto* in = reinterpret_cast<const Pack<T, W>*>(dy) + i / k * num_packs;
  const auto* row = reinterpret_cast<const Pack<T, W>*>(rows) + slot * num_packs;
  auto* out = reinterpret_cast<Pack<T, W>*>(d_rows) + slot * num_packs;
  A dot{0};
  const auto add = [&](int64_t p, Pack<T, W> d, Pack<T, W> r) {
    Pack<T, W> scaled;
#pragma unroll
    for (int c = 0; c < W; ++c) {
      dot += widen(d.at[c]) * widen(r.at[c]);
      scaled.at[c] = narrow<T>(gate * widen(d.at[c]));
    }
    out[p] = scaled;
  };
  if (has_row) {
    constexpr int kInFlight = 4;
    int64_t p = lane;
    for (; p + (kInFlight - 1) * 32 < num_packs; p += kInFlight * 32) {
      Pack<T, W> d[kInFlight], r[kInFlight];
#pragma unroll
      for (int f = 0; f < kInFlight; ++f) d[f] = in[p + f * 32];
#pragma unroll
      for (int f = 0; f < kInFlight; ++f) r[f] = row[p + f * 32];
#pragma unroll
      for (int f = 0; f < kInFlight; ++f) add(p + f * 32, d[f], r[f]);
    }
    for (; p < num_packs; p += 32) add(p, in[p], row[p]);
  }
  dot = warp_sum(dot);
  if (lane != 0) return;
  d_gates[i] = dot;
  if (has_row) in_use[slot] = 1;
}

template <typename T, int W>
__global__ void __launch_bounds__(kThreads)
    clear_unused(const uint8_t* in_use, T* rows, int64_t num_rows, int64_t num_packs) {
  const int64_t row = warp_index();
  if (row >= num_rows || in_use[row] != 0) return;
  auto* out = reinterpret_cast<Pack<T, W>*>(rows) + row * num_packs;
  for (int64_t p = lane_index(); p < num_packs; p += 32) out[p] = zeros<T, W>();
}

template <typename T, int W>
void launch_spread(const Gpu& gpu, const Tensor& dy, const Tensor& rows, const Tensor& slots,
                   const Tensor& gates, const Tensor& d_rows, const Tensor& d_gates,
                   uint8_t* in_use) {
  constexpr const char* kOp = "combine_rows_grad";
  const int64_t num_packs = dy.dim(1) / W, num_rows = rows.numel() / dy.dim(1);
  check(cudaMemsetAsync(in_use, 0, static_cast<size_t>(num_rows), gpu.stream()), kOp);
  if (slots.numel() > 0) {
    spread_rows<T, W><<<blocks_for(slots.numel()), kThreads, 0, gpu.stream()>>>(
        dy.as<T>(), rows.as<T>(), slots.as<int32_t>(), gates.as<Acc<T>>(), d_rows.as<T>(),
        d_gates.as<Acc<T>>(), in_use, slots.numel(), static_cast<int>(slots.dim(1)), num_packs,
        num_rows);
    check_launch(kOp);
  }
  if (num_rows == 0) return;
  clear_unused<T, W><<<blocks_for(num_rows), kThreads, 0, gpu.stream()>>>(in_use, d_rows.as<T>(),
                                                                          num_rows, num_packs);
  check_launch(kOp);
}

template <typename T, bool kGated>
void sum_rows_of(const char* op, const Gpu& gpu, const Tensor& rows, const Tensor& slots,
                 const Acc<T>* gates, const Tensor& y) {
  if (y.numel() == 0) return;
  if (packable<T>(y.dim(1), rows.as<T>(), y.as<T>())) {
    launch_sum<T, kPack<T>, kGated>(op, gpu, rows, slots, gates, y);
  } else {
    launch_sum<T, 1, kGated>(op, gpu, rows, slots, gates, y);
  }
}

}  // namespace

void dispatch_rows(Context& ctx, const Tensor& x, const Tensor& ids, Tensor& rows, Tensor& counts,
                   Tensor& slots) {
  constexpr const char* kOp = "dispatch_rows";
  const int64_t experts = counts.numel(), local = counts.dim(counts.num_dims - 1);
  const int64_t peers = experts / local, capacity = rows.numel() / x.dim(1) / peers;
  TESSERA_CHECK(peers * capacity <= INT32_MAX, "{}: {} rows", kOp, peers * capacity);
  const int64_t choices = ids.numel();
  if (choices == 0) {
    cuda::fill_zero(ctx, counts);
    cuda::fill_zero(ctx, rows);
    return;
  }
  Scratch scratch(kOp, ctx.workspace, workspace::cuda::dispatch_rows(choices, experts));
  auto* tile_counts = scratch.take<int32_t>(workspace::cuda::sort_tiles(choices) * experts);
  auto* used = scratch.take<int32_t>(peers);
  const Blocks b{static_cast<int>(experts), static_cast<int>(local), static_cast<int>(peers),
                 capacity};
  place_rows(*ctx.gpu, ids, b, tile_counts, counts.as<int32_t>(), used, slots.as<int32_t>());
  dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(x.dim(1), x.as<T>(), rows.as<T>())) {
      launch_fill<T, kPack<T>>(*ctx.gpu, x, slots, used, rows, b);
    } else {
      launch_fill<T, 1>(*ctx.gpu, x, slots, used, rows, b);
    }
  });
}

void dispatch_rows_grad(Context& ctx, const Tensor& d_rows, const Tensor& slots, Tensor& dx) {
  dispatch("dispatch_rows_grad", dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    sum_rows_of<T, false>("dispatch_rows_grad", *ctx.gpu, d_rows, slots, nullptr, dx);
  });
}

void combine_rows(Context& ctx, const Tensor& rows, const Tensor& slots, const Tensor& gates,
                  Tensor& y) {
  dispatch("combine_rows", y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    sum_rows_of<T, true>("combine_rows", *ctx.gpu, rows, slots, gates.as<Acc<T>>(), y);
  });
}

void combine_rows_grad(Context& ctx, const Tensor& dy, const Tensor& rows, const Tensor& slots,
                       const Tensor& gates, Tensor& d_rows, Tensor& d_gates) {
  constexpr const char* kOp = "combine_rows_grad";
  const int64_t num_rows = rows.numel() / dy.dim(1);
  Scratch scratch(kOp, ctx.workspace, workspace::cuda::combine_rows_grad(num_rows));
  auto* in_use = scratch.take<uint8_t>(num_rows);
  dispatch(kOp, dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(dy.dim(1), dy.as<T>(), rows.as<T>(), d_rows.as<T>())) {
      launch_spread<T, kPack<T>>(*ctx.gpu, dy, rows, slots, gates, d_rows, d_gates, in_use);
    } else {
      launch_spread<T, 1>(*ctx.gpu, dy, rows, slots, gates, d_rows, d_gates, in_use);
    }
  });
}

}  // namespace tessera::kernels::cuda
