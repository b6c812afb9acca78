// The whole gradient of a norm in one pass over its rows: a block walks over rows, writes dx of
// each, and keeps what they add to the gradients of weight and bias in registers until its last.
// The next rows are on their way to shared memory meanwhile: each thread copies the packs that it
// reads itself.
#include <cuda_pipeline_primitives.h>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/rows/column_sums.cuh"

namespace tessera::kernels::cuda {
namespace {

namespace scratch = tessera::workspace::cuda;
constexpr int kThreads = scratch::kNormGradThreads;

template <typename T>
struct NormGrad {
  int64_t rows, width;
  const T *dy, *x, *w;
  const Acc<T>* stats;
  const T* residual;  // null: none
  T* dx;
  Acc<T>* parts;  // [kSums, blocks, width]
};

// What a norm does with an element, in two steps: sums over the row, then dx. `Row` is what is
// known of the row: its statistics, then also the two sums.
template <typename A>
struct LayerNorm {
  static constexpr int kSums = 2;  // of a column: dw, db
  struct Row {
    A mean, rstd, mean_g = 0, mean_gx = 0;
  };
  __device__ static Row row(const A* stats, int64_t row) {
    return {stats[2 * row], stats[2 * row + 1]};
  }
  __device__ static A xhat(const Row& row, A x) { return (x - row.mean) * row.rstd; }
  __device__ static void finish(Row& row, const A (&sums)[2], A width) {
    row.mean_g = sums[0] / width;
    row.mean_gx = sums[1] / width;
  }
  // rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * w.
  __device__ static A dx(const Row& row, A g, A x) {
    return row.rstd * (g - row.mean_g - xhat(row, x) * row.mean_gx);
  }
};

template <typename A>
struct RmsNorm {
  static constexpr int kSums = 1;
  struct Row {
    A rstd, mean_gx = 0;
  };
  __device__ static Row row(const A* rstd, int64_t row) { return {rstd[row]}; }
  __device__ static A xhat(const Row& row, A x) { return x * row.rstd; }
  __device__ static void finish(Row& row, const A (&sums)[2], A width) {
    row.mean_gx = sums[1] / width;
  }
  // rstd * (g - xhat * mean(g * xhat)) with g = dy * w.
  __device__ static A dx(const Row& row, A g, A x) {
    return row.rstd * (g - xhat(row, x) * row.mean_gx);
  }
};

// Both sums over the block, to every thread, with one barrier: `turn` alternates between calls, so
// that nobody overwrites what another still reads.
template <typename A>
__device__ inline void sum_over_block(A (&sums)[2], int turn) {
  __shared__ A by_warp[2][2][kThreads / 32];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    sums[k] = warp_sum(sums[k]);
    if (lane == 0) by_warp[turn][k][warp] = sums[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    sums[k] = 0;
#pragma unroll
    for (int i = 0; i < kThreads / 32; ++i) {
      if (i < warps) sums[k] += by_warp[turn][k][i];
    }
  }
}

// Rows on their way, and the one that is read: a slot for each.
template <int kHeld>
constexpr int kSlots = kHeld == 1 ? 4 : 3;
constexpr int kTensors = 3;  // dy, x, residual

template <int kHeld>
constexpr int slot_bytes(int threads) {
  return kSlots<kHeld> * kTensors * kHeld * threads * 16;
}

// Packs of the rows in flight, [slot, tensor, k, thread].
template <typename T, int kHeld>
class RowSlots {
 public:
  static constexpr int kN = kPack<T>;

  __device__ RowSlots(const NormGrad<T>& grad, uint4* memory)
      : grad_(grad), memory_(memory + threadIdx.x), packs_(static_cast<int>(grad.width / kN)) {}

  // Copies what this thread reads of the row, if there is one; the copies of one call are a group.
  __device__ void request(int64_t row, int slot) const {
    if (row < grad_.rows) {
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        const int c = pack(k);
        if (c >= packs_) continue;
        const int64_t at = row * grad_.width + static_cast<int64_t>(c) * kN;
        __pipeline_memcpy_async(place(slot, 0, k), grad_.dy + at, 16);
        __pipeline_memcpy_async(place(slot, 1, k), grad_.x + at, 16);
        if (grad_.residual != nullptr) {
          __pipeline_memcpy_async(place(slot, 2, k), grad_.residual + at, 16);
        }
      }
    }
    __pipeline_commit();
  }
  __device__ Pack<T, kN> get(int slot, int tensor, int k) const {
    return std::bit_cast<Pack<T, kN>>(*place(slot, tensor, k));
  }
  // The k-th pack of this thread, and whether the row has it.
  __device__ static int pack(int k) { return static_cast<int>(threadIdx.x + k * blockDim.x); }
  __device__ bool has(int k) const { return pack(k) < packs_; }

 private:
  __device__ uint4* place(int slot, int tensor, int k) const {
    return memory_ + ((slot * kTensors + tensor) * kHeld + k) * static_cast<int>(blockDim.x);
  }
  const NormGrad<T>& grad_;
  uint4* memory_;
  int packs_;
};

template <typename Norm, typename T, int kHeld>
__global__ void __launch_bounds__(kThreads, 3) norm_grad_kernel(NormGrad<T> grad) {
  using A = Acc<T>;
  constexpr int kN = kPack<T>, kAhead = kSlots<kHeld> - 1;
  extern __shared__ uint4 shared_rows[];
  const RowSlots<T, kHeld> slots(grad, shared_rows);
  const int64_t stride = gridDim.x;
#pragma unroll
  for (int i = 0; i < kAhead; ++i) slots.request(blockIdx.x + i * stride, i);
  Packed<T, kN> weights[kHeld];
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    if (slots.has(k)) weights[k] = load_packed<kN>(grad.w + slots.pack(k) * kN);
  }
  Values<A, kN> columns[Norm::kSums][kHeld] = {};
  typename Norm::Row next{};
  if (blockIdx.x < grad.rows) next = Norm::row(grad.stats, blockIdx.x);
  int slot = 0, turn = 0;
  for (int64_t row = blockIdx.x; row < grad.rows; row += stride) {
    typename Norm::Row known = next;
    __pipeline_wait_prior(kAhead - 1);
    A sums[2] = {};
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (!slots.has(k)) continue;
      const Pack<T, kN> dy = slots.get(slot, 0, k), x = slots.get(slot, 1, k);
      const Pack<T, kN> w = unpack(weights[k]);
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const A d = widen(dy.at[j]), g = d * widen(w.at[j]);
        const A xhat = Norm::xhat(known, widen(x.at[j]));
        sums[0] += g;
        sums[1] += g * xhat;
        columns[0][k].at[j] += d * xhat;
        if constexpr (Norm::kSums == 2) columns[1][k].at[j] += d;
      }
    }
    sum_over_block(sums, turn);
    // Every thread is done with the row before this one: its slot is free.
    slots.request(row + kAhead * stride, slot == 0 ? kAhead : slot - 1);
    if (row + stride < grad.rows) next = Norm::row(grad.stats, row + stride);
    Norm::finish(known, sums, static_cast<A>(grad.width));
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (!slots.has(k)) continue;
      const Pack<T, kN> dy = slots.get(slot, 0, k), x = slots.get(slot, 1, k);
      const Pack<T, kN> w = unpack(weights[k]);
      A out[kN];
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        out[j] = Norm::dx(known, widen(dy.at[j]) * widen(w.at[j]), widen(x.at[j]));
      }
      if (grad.residual != nullptr) {
        const Pack<T, kN> kept = slots.get(slot, 2, k);
#pragma unroll
        for (int j = 0; j < kN; ++j) out[j] += widen(kept.at[j]);
      }
      store_pack(grad.dx + row * grad.width + static_cast<int64_t>(slots.pack(k)) * kN,
                 narrow_pack<T>(out));
    }
    slot = slot == kAhead ? 0 : slot + 1;
    turn = 1 - turn;
  }
#pragma unroll
  for (int s = 0; s < Norm::kSums; ++s) {
    A* part = grad.parts + (s * stride + blockIdx.x) * grad.width;
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (slots.has(k)) store_values(part + slots.pack(k) * kN, columns[s][k]);
    }
  }
}

template <typename Norm, typename T, int kHeld>
void launch(const char* op, const Gpu& gpu, const NormGrad<T>& grad, int threads, int64_t parts) {
  constexpr auto* kKernel = norm_grad_kernel<Norm, T, kHeld>;
  // What any launch may use: ranks that share the GPU set the same.
  tessera::cuda::check(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            slot_bytes<kHeld>(kThreads)),
                       op);
  kKernel<<<static_cast<unsigned>(parts), threads, slot_bytes<kHeld>(threads), gpu.stream()>>>(
      grad);
  check_launch(op);
}

struct Operands {
  const Tensor &dy, &x, &w, &stats, &residual;
  Tensor& dx;
};

// outs: dw, and db where the norm has one. False, and nothing is done, where the rows cannot be
// read in packs, or are too wide.
template <typename T, typename Norm, size_t kSums>
bool run(const char* op, Context& ctx, const Operands& in, const std::array<Tensor, kSums>& outs,
         bool accumulate) {
  using A = Acc<T>;
  static_assert(Norm::kSums == kSums);
  const int64_t rows = in.x.dim(0), width = in.x.dim(1);
  NormGrad<T> grad{rows,
                   width,
                   in.dy.as<T>(),
                   in.x.as<T>(),
                   in.w.as<T>(),
                   in.stats.as<A>(),
                   in.residual.as<T>(),
                   in.dx.as<T>()};
  const auto threads = static_cast<int>(scratch::norm_grad_threads(in.x.dtype, width));
  if (threads == 0 || !packable<T>(width, grad.dy, grad.x, grad.w, grad.residual, grad.dx)) {
    return false;
  }
  const int64_t parts = scratch::norm_grad_parts(threads, rows);
  const int64_t needed = scratch::norm_grad(in.x.dtype, rows, width, kSums);
  grad.parts = Scratch(op, ctx.workspace, needed).take<A>(Norm::kSums * parts * width);
  if (width > int64_t{threads} * kPack<T>) {
    launch<Norm, T, 2>(op, *ctx.gpu, grad, threads, parts);
  } else {
    launch<Norm, T, 1>(op, *ctx.gpu, grad, threads, parts);
  }
  sum_parts<T>(op, *ctx.gpu, parts, width, grad.parts, outs, accumulate);
  return true;
}

}  // namespace

void layer_norm_grad(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                     const Tensor& stats, const Tensor& residual, Tensor& dx, Tensor& dw,
                     Tensor& db, bool accumulate) {
  constexpr const char* kOp = "layer_norm_grad";
  const Operands in{dy, x, w, stats, residual, dx};
  bool done = false;
  dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    done = run<T, LayerNorm<Acc<T>>>(kOp, ctx, in, std::array{dw, db}, accumulate);
  });
  if (done) return;
  cuda::layer_norm_dx(ctx, dy, x, w, stats, residual, dx);
  cuda::layer_norm_dw_bias(ctx, dy, x, stats, dw, db, accumulate);
}

void rms_norm_grad(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                   const Tensor& rstd, const Tensor& residual, Tensor& dx, Tensor& dw,
                   bool accumulate) {
  constexpr const char* kOp = "rms_norm_grad";
  const Operands in{dy, x, w, rstd, residual, dx};
  bool done = false;
  dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    done = run<T, RmsNorm<Acc<T>>>(kOp, ctx, in, std::array{dw}, accumulate);
  });
  if (done) return;
  cuda::rms_norm_dx(ctx, dy, x, w, rstd, residual, dx);
  cuda::rms_norm_dw(ctx, dy, x, rstd, dw, accumulate);
}

}  // namespace tessera::kernels::cuda
