// Cross entropy over a vocabulary that may be split: a block of threads per token.
#include <limits>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/device.cuh"

namespace tessera::kernels::cuda {
namespace {

constexpr int64_t kStats = 3;  // max, sum of exp(x - max), logit of the label
constexpr int kRowThreads = 512;
// Packs that a thread asks for before it uses the first.
constexpr int kStatsInFlight = 4, kGradInFlight = 2;

// As exact as numbers stored in T are.
template <typename T>
__device__ Acc<T> exp_for(Acc<T> x) {
  if constexpr (std::is_same_v<T, double>) {
    return exp(x);
  } else if constexpr (std::is_same_v<T, float>) {
    return expf(x);
  } else {
    return __expf(x);
  }
}

// The largest number so far and the sum of exp(x - largest), in one pass. It begins at the lowest
// finite number, so that -inf adds nothing. NaN is no largest number, but makes the sum NaN.
template <typename T>
struct RunningSum {
  using A = Acc<T>;
  A max = std::numeric_limits<A>::lowest();
  A sum = 0;

  template <int W>
  __device__ void add(Pack<T, W> x) {
    A top = max;
#pragma unroll
    for (int i = 0; i < W; ++i) top = widen(x.at[i]) > top ? widen(x.at[i]) : top;
    if (top > max) {
      sum *= exp_for<T>(max - top);
      max = top;
    }
#pragma unroll
    for (int i = 0; i < W; ++i) sum += exp_for<T>(widen(x.at[i]) - max);
  }
};

template <typename A>
__device__ A block_max(A x) {
  __shared__ A parts[32];
  x = warp_max(x);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  return warp_max(parts[lane % (kRowThreads / 32)]);
}

template <typename T, int W>
__device__ RunningSum<T> sum_of_row(const T* row, int64_t valid) {
  RunningSum<T> running;
  const auto* packs = reinterpret_cast<const Pack<T, W>*>(row);
  const int64_t num_packs = valid / W;
  int64_t p = threadIdx.x;
  for (; p + (kStatsInFlight - 1) * kRowThreads < num_packs; p += kStatsInFlight * kRowThreads) {
    Pack<T, W> x[kStatsInFlight];
#pragma unroll
    for (int i = 0; i < kStatsInFlight; ++i) x[i] = packs[p + i * kRowThreads];
#pragma unroll
    for (int i = 0; i < kStatsInFlight; ++i) running.add(x[i]);
  }
  for (; p < num_packs; p += kRowThreads) running.add(packs[p]);
  for (int64_t i = num_packs * W + threadIdx.x; i < valid; i += kRowThreads) {
    running.add(Pack<T, 1>{{row[i]}});
  }
  return running;
}

template <typename T, int W>
__global__ void __launch_bounds__(kRowThreads)
    stats_kernel(const T* logits, const int32_t* labels, Acc<T>* stats, int64_t columns,
                 int64_t first_row, int64_t valid) {
  using A = Acc<T>;
  const int64_t t = blockIdx.x;
  const T* row = logits + t * columns;
  const RunningSum<T> mine = sum_of_row<T, W>(row, valid);
  const A max = block_max(mine.max);
  const A sum = block_sum<kRowThreads>(mine.sum * exp_for<T>(mine.max - max));
  if (threadIdx.x != 0) return;
  const bool none = max == std::numeric_limits<A>::lowest();
  const int64_t label = labels[t];
  const int64_t column = label - first_row;
  stats[t * kStats] = none ? -std::numeric_limits<A>::infinity() : max;
  stats[t * kStats + 1] = sum;
  stats[t * kStats + 2] =
      label >= 0 && column >= 0 && column < valid ? widen(row[column]) : static_cast<A>(0);
}

template <typename T, int W>
void launch_stats(const Gpu& gpu, const Tensor& logits, const Tensor& labels, const Tensor& stats,
                  int64_t first_row, int64_t valid) {
  stats_kernel<T, W><<<static_cast<unsigned>(logits.dim(0)), kRowThreads, 0, gpu.stream()>>>(
      logits.as<T>(), labels.as<int32_t>(), stats.as<Acc<T>>(), logits.dim(1), first_row, valid);
  check_launch("cross_entropy_stats");
}

// The parts of a split row joined: max over all, sum of exp(x - max), logit of the label.
struct Joined {
  double max, sum, label_logit;
};

template <typename A>
__device__ Joined join_parts(const A* all_stats, int64_t parts, int64_t tokens, int64_t t) {
  Joined joined{-std::numeric_limits<double>::infinity(), 0, 0};
  for (int64_t part = 0; part < parts; ++part) {
    const double max = all_stats[(part * tokens + t) * kStats];
    joined.max = max > joined.max ? max : joined.max;
  }
  for (int64_t part = 0; part < parts; ++part) {
    const A* stats = all_stats + (part * tokens + t) * kStats;
    // A part without valid columns has max -inf and sum 0, even when every part is like that.
    if (stats[1] != A{0}) {
      joined.sum += static_cast<double>(stats[1]) * exp(static_cast<double>(stats[0]) - joined.max);
    }
    joined.label_logit += static_cast<double>(stats[2]);
  }
  return joined;
}

constexpr int kLossThreads = 1024;

// One block: a logarithm per token is little.
template <typename A>
__global__ void __launch_bounds__(kLossThreads)
    loss_kernel(const A* all_stats, const int32_t* labels, double* loss, int64_t parts,
                int64_t tokens, bool accumulate) {
  double sum = 0;
  for (int64_t t = threadIdx.x; t < tokens; t += kLossThreads) {
    if (labels[t] < 0) continue;
    const Joined row = join_parts(all_stats, parts, tokens, t);
    sum += row.max + log(row.sum) - row.label_logit;
  }
  sum = block_sum<kLossThreads>(sum);
  if (threadIdx.x == 0) *loss = accumulate ? *loss + sum : sum;
}

template <typename A>
void launch_loss(const Gpu& gpu, const Tensor& all_stats, const Tensor& labels, const Tensor& loss,
                 bool accumulate) {
  const int64_t tokens = labels.numel();
  const int64_t parts = tokens == 0 ? 1 : all_stats.numel() / (tokens * kStats);
  loss_kernel<<<1, kLossThreads, 0, gpu.stream()>>>(all_stats.as<A>(), labels.as<int32_t>(),
                                                    loss.as<double>(), parts, tokens, accumulate);
  check_launch("cross_entropy_loss");
}

// What every element of a row needs.
template <typename A>
struct RowFactors {
  A max, inverse, scale;
};

// Elements [p * W, p * W + W) of a row: `limit` of them are valid, number `hot` is the label's.
template <typename T, int W>
__device__ Pack<T, W> grad_of(Pack<T, W> logits, const RowFactors<Acc<T>>& f, int limit, int hot) {
  Pack<T, W> grad;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const Acc<T> p = exp_for<T>(widen(logits.at[i]) - f.max) * f.inverse;
    const Acc<T> g = i == hot ? p - f.scale : p;
    grad.at[i] = narrow<T>(i < limit ? g : Acc<T>{0});
  }
  return grad;
}

// d_logits may be logits: a thread reads what it writes, and nothing else.
template <typename T, int W>
__global__ void __launch_bounds__(kRowThreads)
    grad_kernel(const T* logits, const Acc<T>* all_stats, const int32_t* labels,
                const StepParams* params, T* d_logits, int64_t parts, int64_t columns,
                int64_t first_row, int64_t valid) {
  using A = Acc<T>;
  __shared__ RowFactors<A> shared;
  const int64_t t = blockIdx.x, tokens = gridDim.x, num_packs = columns / W;
  const auto* in = reinterpret_cast<const Pack<T, W>*>(logits + t * columns);
  auto* out = reinterpret_cast<Pack<T, W>*>(d_logits + t * columns);
  const int64_t label = labels[t];
  if (label < 0) {
    Pack<T, W> zero;
#pragma unroll
    for (int i = 0; i < W; ++i) zero.at[i] = narrow<T>(A{0});
    for (int64_t p = threadIdx.x; p < num_packs; p += kRowThreads) out[p] = zero;
    return;
  }
  if (threadIdx.x == 0) {
    const Joined row = join_parts(all_stats, parts, tokens, t);
    const auto scale = static_cast<A>(params->loss_scale);
    shared = {static_cast<A>(row.max), static_cast<A>(static_cast<double>(scale) / row.sum), scale};
  }
  __syncthreads();
  const RowFactors<A> factors = shared;
  const int64_t column = label - first_row;
  const bool here = column >= 0 && column < valid;
  const int64_t hot_pack = here ? column / W : -1;
  const int hot = static_cast<int>(column % W);
  const auto grad_at = [&](int64_t p, Pack<T, W> x) {
    const int64_t left = valid - p * W;
    const int limit = left >= W ? W : left > 0 ? static_cast<int>(left) : 0;
    out[p] = grad_of(x, factors, limit, p == hot_pack ? hot : -1);
  };
  int64_t p = threadIdx.x;
  for (; p + (kGradInFlight - 1) * kRowThreads < num_packs; p += kGradInFlight * kRowThreads) {
    Pack<T, W> x[kGradInFlight];
#pragma unroll
    for (int i = 0; i < kGradInFlight; ++i) x[i] = in[p + i * kRowThreads];
#pragma unroll
    for (int i = 0; i < kGradInFlight; ++i) grad_at(p + i * kRowThreads, x[i]);
  }
  for (; p < num_packs; p += kRowThreads) grad_at(p, in[p]);
}

template <typename T, int W>
void launch_grad(const Context& ctx, const Tensor& logits, const Tensor& all_stats,
                 const Tensor& labels, const Tensor& d_logits, int64_t first_row, int64_t valid) {
  const int64_t tokens = logits.dim(0);
  grad_kernel<T, W><<<static_cast<unsigned>(tokens), kRowThreads, 0, ctx.gpu->stream()>>>(
      logits.as<T>(), all_stats.as<Acc<T>>(), labels.as<int32_t>(), ctx.params, d_logits.as<T>(),
      all_stats.numel() / (tokens * kStats), logits.dim(1), first_row, valid);
  check_launch("cross_entropy_grad");
}

}  // namespace

void cross_entropy_stats(Context& ctx, const Tensor& logits, const Tensor& labels, Tensor& stats,
                         int64_t first_row, int64_t valid) {
  if (logits.dim(0) == 0) return;
  dispatch("cross_entropy_stats", logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(logits.dim(1), logits.as<T>())) {
      launch_stats<T, kPack<T>>(*ctx.gpu, logits, labels, stats, first_row, valid);
    } else {
      launch_stats<T, 1>(*ctx.gpu, logits, labels, stats, first_row, valid);
    }
  });
}

void cross_entropy_loss(Context& ctx, const Tensor& all_stats, const Tensor& labels, Tensor& loss,
                        bool accumulate) {
  if (all_stats.dtype == DType::kF64) {
    launch_loss<double>(*ctx.gpu, all_stats, labels, loss, accumulate);
  } else {
    launch_loss<float>(*ctx.gpu, all_stats, labels, loss, accumulate);
  }
}

void cross_entropy_grad(Context& ctx, const Tensor& logits, const Tensor& all_stats,
                        const Tensor& labels, Tensor& d_logits, int64_t first_row, int64_t valid) {
  if (logits.numel() == 0) return;
  dispatch("cross_entropy_grad", logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(logits.dim(1), logits.as<T>(), d_logits.as<T>())) {
      launch_grad<T, kPack<T>>(ctx, logits, all_stats, labels, d_logits, first_row, valid);
    } else {
      launch_grad<T, 1>(ctx, logits, all_stats, labels, d_logits, first_row, valid);
    }
  });
}

}  // namespace tessera::kernels::cuda
