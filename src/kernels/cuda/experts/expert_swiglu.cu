// SwiGLU of the rows that experts have; the other rows are not read and become zero.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/sigmoid.cuh"
#include "kernels/cuda/experts/expert_rows.cuh"

namespace tessera::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// Rows of this block of rows that belong to experts. Every thread must call it.
__device__ int used_rows(const ExpertRows& rows, int block) {
  __shared__ int used;
  if (threadIdx.x < 32) {
    int sum = 0;
    for (int e = static_cast<int>(threadIdx.x); e < rows.local; e += 32) {
      sum += count_of(rows, block * rows.local + e);
    }
    sum = warp_sum(sum);
    if (threadIdx.x == 0) used = min(sum, rows.capacity);
  }
  __syncthreads();
  return used;
}

// f(row, pack, used) for every pack of a row, of `packs` in each, in no order. Blocks of rows along
// y of the grid.
template <typename F>
__global__ void __launch_bounds__(kThreads) for_each_pack(ExpertRows rows, int packs, F f) {
  const auto block = static_cast<int>(blockIdx.y);
  const int used = used_rows(rows, block);
  const int64_t first = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  const int64_t stride = gridDim.x * int64_t{kThreads};
  const auto row_step = static_cast<int>(stride / packs), step = static_cast<int>(stride % packs);
  auto row = first / packs;
  auto pack = static_cast<int>(first % packs);
  while (row < rows.capacity) {
    f(static_cast<int64_t>(block) * rows.capacity + row, pack, row < used);
    row += row_step;
    pack += step;
    if (pack >= packs) {
      pack -= packs;
      ++row;
    }
  }
}

template <typename F>
void launch_packs(const char* op, const Gpu& gpu, const ExpertRows& rows, int packs, const F& f) {
  TESSERA_CHECK(rows.blocks <= 65535, "{}: {} blocks are too many", op, rows.blocks);
  const int64_t all = ceil_div(static_cast<int64_t>(rows.capacity) * packs, kThreads);
  const int64_t wanted = ceil_div(int64_t{32} * gpu.multiprocessors(), rows.blocks);
  const dim3 grid(static_cast<unsigned>(std::min(all, wanted)), static_cast<unsigned>(rows.blocks));
  for_each_pack<<<grid, kThreads, 0, gpu.stream()>>>(rows, packs, f);
  check_launch(op);
}

template <typename T, int N>
void forward(const Gpu& gpu, const ExpertRows& rows, int64_t width, const T* gate_up, T* h) {
  using A = Acc<T>;
  const auto body = [=] __device__(int64_t row, int pack, bool used) {
    const int64_t at = static_cast<int64_t>(pack) * N;
    Pack<T, N> result;
    if (used) {
      const T* const gate_at = gate_up + row * 2 * width + at;
      const auto gate = *reinterpret_cast<const Pack<T, N>*>(gate_at);
      const auto up = *reinterpret_cast<const Pack<T, N>*>(gate_at + width);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const A g = widen(gate.at[i]);
        result.at[i] = narrow<T>(g * sigmoid<T>(g) * widen(up.at[i]));
      }
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) result.at[i] = narrow<T>(A{0});
    }
    *reinterpret_cast<Pack<T, N>*>(h + row * width + at) = result;
  };
  launch_packs("expert_swiglu", gpu, rows, static_cast<int>(width / N), body);
}

template <typename T, int N>
void backward(const Gpu& gpu, const ExpertRows& rows, int64_t width, const T* dh, const T* gate_up,
              T* d_gate_up) {
  using A = Acc<T>;
  const auto body = [=] __device__(int64_t row, int pack, bool used) {
    const int64_t at = static_cast<int64_t>(pack) * N;
    const int64_t gate_at = row * 2 * width + at;
    Pack<T, N> d_gate, d_up;
    if (used) {
      const auto gate = *reinterpret_cast<const Pack<T, N>*>(gate_up + gate_at);
      const auto up = *reinterpret_cast<const Pack<T, N>*>(gate_up + gate_at + width);
      const auto d = *reinterpret_cast<const Pack<T, N>*>(dh + row * width + at);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const A g = widen(gate.at[i]), d_h = widen(d.at[i]), s = sigmoid<T>(g);
        d_gate.at[i] = narrow<T>(d_h * widen(up.at[i]) * s * (A{1} + g * (A{1} - s)));
        d_up.at[i] = narrow<T>(d_h * g * s);
      }
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) d_gate.at[i] = d_up.at[i] = narrow<T>(A{0});
    }
    *reinterpret_cast<Pack<T, N>*>(d_gate_up + gate_at) = d_gate;
    *reinterpret_cast<Pack<T, N>*>(d_gate_up + gate_at + width) = d_up;
  };
  launch_packs("expert_swiglu_grad", gpu, rows, static_cast<int>(width / N), body);
}

}  // namespace

void expert_swiglu(Context& ctx, const Tensor& gate_up, const Tensor& counts, Tensor& h) {
  constexpr const char* kOp = "expert_swiglu";
  if (h.numel() == 0) return;
  const int64_t width = h.dim(h.num_dims - 1);
  const ExpertRows rows = expert_rows(kOp, counts, h.numel() / width);
  dispatch(kOp, h.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(width, gate_up.as<T>(), h.as<T>())) {
      forward<T, kPack<T>>(*ctx.gpu, rows, width, gate_up.as<T>(), h.as<T>());
    } else {
      forward<T, 1>(*ctx.gpu, rows, width, gate_up.as<T>(), h.as<T>());
    }
  });
}

void expert_swiglu_grad(Context& ctx, const Tensor& dh, const Tensor& gate_up, const Tensor& counts,
                        Tensor& d_gate_up) {
  constexpr const char* kOp = "expert_swiglu_grad";
  if (dh.numel() == 0) return;
  const int64_t width = dh.dim(dh.num_dims - 1);
  const ExpertRows rows = expert_rows(kOp, counts, dh.numel() / width);
  dispatch(kOp, dh.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(width, dh.as<T>(), gate_up.as<T>(), d_gate_up.as<T>())) {
      backward<T, kPack<T>>(*ctx.gpu, rows, width, dh.as<T>(), gate_up.as<T>(), d_gate_up.as<T>());
    } else {
      backward<T, 1>(*ctx.gpu, rows, width, dh.as<T>(), gate_up.as<T>(), d_gate_up.as<T>());
    }
  });
}

}  // namespace tessera::kernels::cuda
