// The optimizer and the numbers that a step reports.
#include "base/cuda_workspace.h"
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

template <typename T>
struct AdamTensors {
  Acc<T>*master, *m, *v;
  const Acc<T>* grad;
  T* weight;
};

// W elements from number `at` on. weight may be master.
template <int W, typename T>
__device__ void update(const Factors<Acc<T>>& f, const AdamTensors<T>& x, int64_t at) {
  using A = Acc<T>;
  using Wide = Pack<A, W>;
  const auto wide = [at](A* data) { return reinterpret_cast<Wide*>(data + at); };
  const Wide grad = *reinterpret_cast<const Wide*>(x.grad + at);
  Wide m = *wide(x.m), v = *wide(x.v), master = *wide(x.master);
  Pack<T, W> weight;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const A g = grad.at[i] * f.grad_scale;
    m.at[i] = f.beta1 * m.at[i] + f.one_minus_beta1 * g;
    v.at[i] = f.beta2 * v.at[i] + f.one_minus_beta2 * g * g;
    master.at[i] =
        master.at[i] * f.decay - f.step_size * m.at[i] / (sqrt(v.at[i]) * f.root_scale + f.eps);
    weight.at[i] = narrow<T>(master.at[i]);
  }
  *wide(x.m) = m;
  *wide(x.v) = v;
  *wide(x.master) = master;
  if constexpr (std::is_same_v<T, A>) {
    if (x.weight == x.master) return;
  }
  *reinterpret_cast<Pack<T, W>*>(x.weight + at) = weight;
}

// Every block computes the factors for itself: that is shorter than a launch before this one.
template <typename T, int W>
__global__ void __launch_bounds__(kAdamThreads, kAdamBlocks)
    adamw_kernel(int64_t count, AdamTensors<T> x, const StepParams* params, const double* known,
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

template <typename T, int W>
void launch_adamw(const Context& ctx, int64_t count, const AdamTensors<T>& x, const Tensor& known,
                  const UpdatePlace& place) {
  const int64_t blocks = std::min<int64_t>(ceil_div(count, int64_t{kAdamThreads} * W),
                                           int64_t{kAdamBlocks} * ctx.gpu->multiprocessors());
  const int64_t staged = known.numel() <= kMostStaged ? known.bytes() : 0;
  adamw_kernel<T, W>
      <<<static_cast<unsigned>(blocks), kAdamThreads, static_cast<size_t>(staged),
         ctx.gpu->stream()>>>(count, x, ctx.params, known.as<double>(), known.numel(), place);
  check_launch("adamw");
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
  const int64_t count = weight.numel();
  if (count == 0) return;
  dispatch("adamw", weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    constexpr int kWidth = kPack<A>;
    const AdamTensors<T> x{master.as<A>(), m.as<A>(), v.as<A>(), grad.as<A>(), weight.as<T>()};
    const bool aligned = packable<A>(kWidth, x.master, x.m, x.v, x.grad) &&
                         reinterpret_cast<uintptr_t>(x.weight) % (kWidth * sizeof(T)) == 0;
    if (aligned) {
      launch_adamw<T, kWidth>(ctx, count, x, known, place);
    } else {
      launch_adamw<T, 1>(ctx, count, x, known, place);
    }
  });
}

}  // namespace tessera::kernels::cuda
