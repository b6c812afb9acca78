// The optimizer and the numbers that a step reports.
#include "base/cuda_workspace.h"
#include "base/master_weight.h"
#include "kernels/cpu/check.h"
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"

namespace tessera::kernels::cuda {
namespace {

// ---- sum of squares ----
constexpr int kSquareThreads = 256;
constexpr int kInFlight = 4;  // packs that a thread asks for before it uses the first

template <typename T, int W>
__device__ double squares_of(Pack<T, W> x) {
  double sum = 0;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const auto value = static_cast<double>(widen(x.at[i]));
    sum += value * value;
  }
  return sum;
}

template <typename T, int W>
__global__ void __launch_bounds__(kSquareThreads)
    squares_kernel(int64_t count, const T* x, double* sums) {
  const auto* packs = reinterpret_cast<const Pack<T, W>*>(x);
  const int64_t num_packs = count / W;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kSquareThreads;
  const int64_t thread = blockIdx.x * static_cast<int64_t>(kSquareThreads) + threadIdx.x;
  double sum = 0;
  int64_t p = thread;
  for (; p + (kInFlight - 1) * stride < num_packs; p += kInFlight * stride) {
    Pack<T, W> in[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) in[i] = packs[p + i * stride];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) sum += squares_of(in[i]);
  }
  for (; p < num_packs; p += stride) sum += squares_of(packs[p]);
  const int64_t rest = num_packs * W + thread;
  if (rest < count) sum += squares_of(Pack<T, 1>{{x[rest]}});
  sum = block_sum<kSquareThreads>(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

constexpr int kFinishThreads = workspace::cuda::kSumBlocks;

__global__ void __launch_bounds__(kFinishThreads)
    finish_squares(int num_sums, const double* sums, double* metric) {
  const int i = static_cast<int>(threadIdx.x);
  const double sum = block_sum<kFinishThreads>(i < num_sums ? sums[i] : 0.0);
  if (i == 0) *metric += sum;
}

// The number of blocks, and with it the order of the sum, depends on the number of elements only.
template <typename T, int W>
void launch_squares(const Gpu& gpu, int64_t count, const T* x, double* sums, double* metric) {
  const auto blocks = static_cast<int>(std::min<int64_t>(
      workspace::cuda::kSumBlocks, ceil_div(count, int64_t{kSquareThreads} * W * kInFlight)));
  squares_kernel<T, W><<<blocks, kSquareThreads, 0, gpu.stream()>>>(count, x, sums);
  check_launch("sum_squares");
  finish_squares<<<1, kFinishThreads, 0, gpu.stream()>>>(blocks, sums, metric);
  check_launch("sum_squares");
}

// ---- labels ----
constexpr int kLabelThreads = 1024;

// The number of unmasked ones, to every thread of the block.
__device__ double unmasked(const int32_t* labels, int64_t count) {
  int64_t mine = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < count; i += kLabelThreads) mine += labels[i] >= 0 ? 1 : 0;
  return static_cast<double>(block_sum<kLabelThreads>(mine));
}

__global__ void __launch_bounds__(kLabelThreads)
    metrics_kernel(const double* loss, const int32_t* labels, int64_t count, int64_t last_part,
                   double* metrics) {
  const double all = unmasked(labels, count);
  const double last = unmasked(labels + count - last_part, last_part);
  if (threadIdx.x != 0) return;
  metrics[kMetricLoss] += *loss;
  metrics[kMetricTokens] += all;
  metrics[kMetricUpdateTokens] += last;
}

__global__ void __launch_bounds__(kLabelThreads)
    count_kernel(const int32_t* labels, int64_t part, double* counts) {
  const double count = unmasked(labels + blockIdx.x * part, part);
  if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

// ---- AdamW ----
constexpr int kAdamThreads = 256;
constexpr int kAdamBlocks = 4;  // that a multiprocessor holds at once
// Metrics that fit in shared memory; more are read where they are, which takes long.
constexpr int64_t kMostStaged = 4096;

// The factors in the arithmetic type.
template <typename A>
struct Factors {
  __device__ explicit Factors(const AdamFactors& f)
      : decay(static_cast<A>(f.decay)),
        beta1(static_cast<A>(f.beta1)),
        beta2(static_cast<A>(f.beta2)),
        one_minus_beta1(static_cast<A>(f.one_minus_beta1)),
        one_minus_beta2(static_cast<A>(f.one_minus_beta2)),
        step_size(static_cast<A>(f.step_size)),
        root_scale(static_cast<A>(f.root_scale)),
        eps(static_cast<A>(f.eps)),
        grad_scale(static_cast<A>(f.grad_scale)) {}
  A decay, beta1, beta2, one_minus_beta1, one_minus_beta2, step_size, root_scale, eps, grad_scale;
};

// M: elements of the master copy, Acc<T>, or int16_t for the rests of bf16 weights.
template <typename T, typename M>
struct AdamTensors {
  M* master;
  Acc<T>*m, *v;
  const Acc<T>* grad;
  T* weight;
};

// The new master weight; m and v become the new ones.
template <typename A>
__device__ A adam_step(const Factors<A>& f, A master, A& m, A& v, A grad) {
  const A g = grad * f.grad_scale;
  m = f.beta1 * m + f.one_minus_beta1 * g;
  v = f.beta2 * v + f.one_minus_beta2 * g * g;
  return master * f.decay - f.step_size * m / (sqrt(v) * f.root_scale + f.eps);
}

// W elements from number `at` on. weight may be master.
template <int W, typename T, typename M>
__device__ void update(const Factors<Acc<T>>& f, const AdamTensors<T, M>& x, int64_t at) {
  using A = Acc<T>;
  constexpr bool kRests = std::is_same_v<M, int16_t>;
  const auto pack = [at](auto* data) {
    return reinterpret_cast<Pack<std::remove_pointer_t<decltype(data)>, W>*>(data + at);
  };
  const Pack<A, W> grad = *reinterpret_cast<const Pack<A, W>*>(x.grad + at);
  Pack<A, W> m = *pack(x.m), v = *pack(x.v);
  Pack<M, W> master = *pack(x.master);
  Pack<T, W> weight;
  if constexpr (kRests) weight = *pack(x.weight);
#pragma unroll
  for (int i = 0; i < W; ++i) {
    if constexpr (kRests) {
      const float before = master_weight(__bfloat16_as_ushort(weight.at[i]), master.at[i]);
      const float after = adam_step(f, before, m.at[i], v.at[i], grad.at[i]);
      weight.at[i] = narrow<T>(after);
      master.at[i] = rest_of_master(after, __bfloat16_as_ushort(weight.at[i]));
    } else {
      master.at[i] = adam_step(f, master.at[i], m.at[i], v.at[i], grad.at[i]);
      weight.at[i] = narrow<T>(master.at[i]);
    }
  }
  *pack(x.m) = m;
  *pack(x.v) = v;
  *pack(x.master) = master;
  if constexpr (std::is_same_v<T, M>) {
    if (x.weight == x.master) return;
  }
  *pack(x.weight) = weight;
}

// Every block computes the factors for itself: that is shorter than a launch before this one.
template <int W, typename T, typename M>
__global__ void __launch_bounds__(kAdamThreads, kAdamBlocks)
    adamw_kernel(int64_t count, AdamTensors<T, M> x, const StepParams* params, const double* known,
                 int64_t num_known, UpdatePlace place) {
  extern __shared__ double staged[];
  __shared__ AdamFactors shared;
  const bool stage = num_known <= kMostStaged;
  if (stage) {
    for (int64_t i = threadIdx.x; i < num_known; i += kAdamThreads) staged[i] = known[i];
  }
  __syncthreads();
  if (threadIdx.x == 0) shared = adam_factors(*params, stage ? staged : known, num_known, place);
  __syncthreads();
  if (shared.skip) return;
  const Factors<Acc<T>> factors(shared);
  const int64_t num_packs = count / W;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kAdamThreads;
  const int64_t thread = blockIdx.x * static_cast<int64_t>(kAdamThreads) + threadIdx.x;
  for (int64_t p = thread; p < num_packs; p += stride) update<W>(factors, x, p * W);
  if (num_packs * W + thread < count) update<1>(factors, x, num_packs * W + thread);
}

template <int W, typename T, typename M>
void launch_adamw(const Context& ctx, int64_t count, const AdamTensors<T, M>& x,
                  const Tensor& known, const UpdatePlace& place) {
  const int64_t blocks = std::min<int64_t>(ceil_div(count, int64_t{kAdamThreads} * W),
                                           int64_t{kAdamBlocks} * ctx.gpu->multiprocessors());
  const int64_t staged = known.numel() <= kMostStaged ? known.bytes() : 0;
  adamw_kernel<W>
      <<<static_cast<unsigned>(blocks), kAdamThreads, static_cast<size_t>(staged),
         ctx.gpu->stream()>>>(count, x, ctx.params, known.as<double>(), known.numel(), place);
  check_launch("adamw");
}

template <typename T, typename M>
void adamw_as(const Context& ctx, Tensor& master, Tensor& m, Tensor& v, const Tensor& grad,
              Tensor& weight, const Tensor& known, const UpdatePlace& place) {
  using A = Acc<T>;
  constexpr int kWidth = kPack<A>;
  const AdamTensors<T, M> x{master.as<M>(), m.as<A>(), v.as<A>(), grad.as<A>(), weight.as<T>()};
  const auto aligned = [](const auto* data) {
    return reinterpret_cast<uintptr_t>(data) % (kWidth * sizeof(*data)) == 0;
  };
  if (aligned(x.master) && aligned(x.m) && aligned(x.v) && aligned(x.grad) && aligned(x.weight)) {
    launch_adamw<kWidth>(ctx, weight.numel(), x, known, place);
  } else {
    launch_adamw<1>(ctx, weight.numel(), x, known, place);
  }
}

}  // namespace

void sum_squares(Context& ctx, const Tensor& x, Tensor& metrics, int64_t at) {
  constexpr const char* kOp = "sum_squares";
  if (x.numel() == 0) return;
  cpu::Scratch scratch(kOp, ctx.workspace, workspace::cuda::sum_squares());
  auto* sums = scratch.take<double>(workspace::cuda::kSumBlocks);
  double* metric = metrics.as<double>() + at;
  dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(kPack<T>, x.as<T>())) {
      launch_squares<T, kPack<T>>(*ctx.gpu, x.numel(), x.as<T>(), sums, metric);
    } else {
      launch_squares<T, 1>(*ctx.gpu, x.numel(), x.as<T>(), sums, metric);
    }
  });
}

void add_metrics(Context& ctx, const Tensor& loss, const Tensor& labels, Tensor& metrics,
                 int64_t updates) {
  metrics_kernel<<<1, kLabelThreads, 0, ctx.gpu->stream()>>>(
      loss.as<double>(), labels.as<int32_t>(), labels.numel(), labels.numel() / updates,
      metrics.as<double>());
  check_launch("add_metrics");
}

void count_tokens(Context& ctx, const Tensor& labels, Tensor& counts) {
  count_kernel<<<static_cast<unsigned>(counts.numel()), kLabelThreads, 0, ctx.gpu->stream()>>>(
      labels.as<int32_t>(), labels.numel() / counts.numel(), counts.as<double>());
  check_launch("count_tokens");
}

void adamw(Context& ctx, Tensor& master, Tensor& m, Tensor& v, const Tensor& grad, Tensor& weight,
           const Tensor& known, const UpdatePlace& place) {
  if (weight.numel() == 0) return;
  if (weight.dtype == DType::kBF16 && master.dtype == DType::kBF16) {
    return adamw_as<__nv_bfloat16, int16_t>(ctx, master, m, v, grad, weight, known, place);
  }
  dispatch("adamw", weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    adamw_as<T, Acc<T>>(ctx, master, m, v, grad, weight, known, place);
  });
}

}  // namespace tessera::kernels::cuda
