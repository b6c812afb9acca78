// The router: softmax, the k best, their gates; and its statistics. A warp per token.
#include <limits>

#include "base/cuda_workspace.h"
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/experts/warp_rows.cuh"
#include "kernels/scratch.h"

namespace tessera::kernels::cuda {
namespace {

// ---- the k best ----
template <typename A>
struct Choice {
  A logit;
  int id;
  // The larger logit first, then the lower id.
  __device__ bool before(const Choice& other) const {
    return logit > other.logit || (logit == other.logit && id < other.id);
  }
};

// The best of those after `last`. NaN counts as the lowest, so that ids differ whatever the logits.
template <typename T>
__device__ Choice<Acc<T>> best_after(const T* logits, int experts, const Choice<Acc<T>>& last) {
  using A = Acc<T>;
  constexpr A kInfinity = std::numeric_limits<A>::infinity();
  Choice<A> best{-kInfinity, INT32_MAX};
  for (int e = lane_index(); e < experts; e += 32) {
    const A logit = widen(logits[e]);
    const Choice<A> choice{logit == logit ? logit : -kInfinity, e};
    if (last.before(choice) && choice.before(best)) best = choice;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const Choice<A> other{__shfl_xor_sync(0xffffffffU, best.logit, offset),
                          __shfl_xor_sync(0xffffffffU, best.id, offset)};
    if (other.before(best)) best = other;
  }
  return best;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    router_kernel(const T* logits, Acc<T>* gates, int32_t* ids, int64_t tokens, int experts,
                  int k) {
  using A = Acc<T>;
  const int64_t t = warp_index();
  if (t >= tokens) return;
  const int lane = lane_index();
  const T* row = logits + t * experts;
  Choice<A> last{std::numeric_limits<A>::infinity(), -1};
  A max{0}, sum{0};
  for (int j = 0; j < k; ++j) {
    last = best_after(row, experts, last);
    const A logit = widen(row[last.id]);
    if (j == 0) max = logit;
    const A gate = exp(logit - max);
    sum += gate;
    if (lane == j % 32) {
      ids[t * k + j] = last.id;
      gates[t * k + j] = gate;
    }
  }
  for (int j = lane; j < k; j += 32) gates[t * k + j] /= sum;  // written by this lane
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    router_grad_kernel(const Acc<T>* d_gates, const Acc<T>* gates, const int32_t* ids, T* d_logits,
                       int64_t tokens, int experts, int k, bool accumulate) {
  using A = Acc<T>;
  const int64_t t = warp_index();
  if (t >= tokens) return;
  const int lane = lane_index();
  const A* g = gates + t * k;
  const A* dg = d_gates + t * k;
  T* out = d_logits + t * experts;
  if (!accumulate) {
    for (int e = lane; e < experts; e += 32) out[e] = narrow<T>(A{0});
  }
  A mean{0};
  for (int j = 0; j < k; ++j) mean += g[j] * dg[j];
  __syncwarp();  // other lanes wrote the zeros
  for (int j = lane; j < k; j += 32) {
    T& d = out[ids[t * k + j]];
    d = narrow<T>(widen(d) + g[j] * (dg[j] - mean));
  }
}

// ---- statistics ----
template <typename A>
struct Softmax {
  A max, inverse;  // 1 / sum of exp(x - max)
  template <typename T>
  __device__ A probability(T logit) const {
    return exp(widen(logit) - max) * inverse;
  }
};

// By all lanes of a warp, to all of them.
template <typename T>
__device__ Softmax<Acc<T>> softmax_of(const T* logits, int experts) {
  using A = Acc<T>;
  A max = -std::numeric_limits<A>::infinity(), sum{0};
  for (int e = lane_index(); e < experts; e += 32)
    max = widen(logits[e]) > max ? widen(logits[e]) : max;
  max = warp_max(max);
  for (int e = lane_index(); e < experts; e += 32) sum += exp(widen(logits[e]) - max);
  return {max, A{1} / warp_sum(sum)};
}

// The sequences that the rows of this rank are of, in chunks.
struct Chunks {
  int64_t tokens, first_token, tokens_per_sequence;
  int64_t first_sequence, sequences;
  int64_t per_sequence;

  Chunks(const RouterRows& rows, int64_t num_tokens)
      : tokens(num_tokens),
        first_token(rows.first_token),
        tokens_per_sequence(rows.tokens_per_sequence),
        first_sequence(rows.first_token / rows.tokens_per_sequence),
        sequences((rows.first_token + num_tokens - 1) / rows.tokens_per_sequence - first_sequence +
                  1),
        per_sequence(ceil_div(rows.tokens_per_sequence, workspace::cuda::kStatsChunk)) {}
  [[nodiscard]] __host__ __device__ int64_t count() const { return sequences * per_sequence; }
  // Rows [begin, end) of a chunk; none where other ranks have them.
  __device__ int64_t begin(int64_t chunk) const {
    const int64_t start = (first_sequence + chunk / per_sequence) * tokens_per_sequence;
    return max(int64_t{0},
               start + chunk % per_sequence * workspace::cuda::kStatsChunk - first_token);
  }
  __device__ int64_t end(int64_t chunk) const {
    const int64_t start = (first_sequence + chunk / per_sequence) * tokens_per_sequence;
    const int64_t position = (chunk % per_sequence + 1) * workspace::cuda::kStatsChunk;
    return min(tokens, start + min(tokens_per_sequence, position) - first_token);
  }
};

// sums[chunk, 2E]: a warp per chunk. Lane i knows the softmax of the chunk's token i.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    chunk_stats(const T* logits, const int32_t* ids, double* sums, Chunks chunks, int experts,
                int k) {
  using A = Acc<T>;
  static_assert(workspace::cuda::kStatsChunk == 32);
  const int64_t chunk = warp_index();
  if (chunk >= chunks.count()) return;
  const int lane = lane_index();
  const int64_t begin = chunks.begin(chunk);
  const int count = static_cast<int>(max(int64_t{0}, chunks.end(chunk) - begin));
  const T* rows = logits + begin * experts;
  const int32_t* chosen = ids + begin * k;
  Softmax<A> mine{0, 0};
#pragma unroll 4
  for (int i = 0; i < count; ++i) {
    const Softmax<A> softmax = softmax_of(rows + static_cast<int64_t>(i) * experts, experts);
    if (lane == i) mine = softmax;
  }
  for (int first = 0; first < experts; first += 32) {
    const int e = first + lane;
    double probability = 0;
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      const Softmax<A> softmax{__shfl_sync(0xffffffffU, mine.max, i),
                               __shfl_sync(0xffffffffU, mine.inverse, i)};
      if (e < experts) {
        probability +=
            static_cast<double>(softmax.probability(rows[static_cast<int64_t>(i) * experts + e]));
      }
    }
    int choices = 0;
    for (int at = 0; at < count * k; at += 32) {
      const int32_t id = at + lane < count * k ? chosen[at + lane] : -1;
#pragma unroll
      for (int j = 0; j < 32; ++j) choices += __shfl_sync(0xffffffffU, id, j) == e ? 1 : 0;
    }
    if (e < experts) {
      sums[chunk * 2 * experts + e] = choices;
      sums[chunk * 2 * experts + experts + e] = probability;
    }
  }
}

constexpr int kAddWarps = 32;

// A warp per sequence adds its chunks, in their order, 32 columns of a block at a time. What the
// sequences have in all is the load: whole numbers, exact in any order.
__global__ void __launch_bounds__(kAddWarps * 32)
    add_chunks(const double* sums, double* stats, double* load, Chunks chunks, int experts) {
  __shared__ double loads[kAddWarps][32];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = lane_index();
  const int column = static_cast<int>(blockIdx.x) * 32 + lane, columns = 2 * experts;
  double all = 0;
  if (column < columns) {
    for (int64_t s = warp; s < chunks.sequences; s += kAddWarps) {
      const double* from = sums + s * chunks.per_sequence * columns + column;
      double sum = 0;
#pragma unroll 8
      for (int64_t c = 0; c < chunks.per_sequence; ++c) sum += from[c * columns];
      stats[(chunks.first_sequence + s) * (columns + 1) + column] += sum;
      all += sum;
    }
  }
  loads[warp][lane] = all;
  __syncthreads();
  if (warp != 0 || column >= experts) return;
  all = 0;
  for (int w = 0; w < kAddWarps; ++w) all += loads[w][lane];
  load[column] += all;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    stats_grad_kernel(const T* logits, const double* d_stats, T* d_logits, RouterRows rows,
                      int64_t tokens, int experts, bool accumulate) {
  using A = Acc<T>;
  const int64_t t = warp_index();
  if (t >= tokens) return;
  const int lane = lane_index();
  const int64_t sequence = (rows.first_token + t) / rows.tokens_per_sequence;
  const double* d = d_stats + sequence * (2 * experts + 1) + experts;
  const T* row = logits + t * experts;
  T* out = d_logits + t * experts;
  const Softmax<A> softmax = softmax_of(row, experts);
  A mean{0};
  for (int e = lane; e < experts; e += 32) {
    mean += softmax.probability(row[e]) * static_cast<A>(d[e]);
  }
  mean = warp_sum(mean);
  for (int e = lane; e < experts; e += 32) {
    const A before = accumulate ? widen(out[e]) : A{0};
    out[e] = narrow<T>(before + softmax.probability(row[e]) * (static_cast<A>(d[e]) - mean));
  }
}

int narrow_dim(const Tensor& x, int dim) { return static_cast<int>(x.dim(dim)); }

}  // namespace

void router(Context& ctx, const Tensor& logits, Tensor& gates, Tensor& ids) {
  const int64_t tokens = logits.dim(0);
  if (tokens == 0) return;
  dispatch("router", logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    router_kernel<<<blocks_for(tokens), kThreads, 0, ctx.gpu->stream()>>>(
        logits.as<T>(), gates.as<Acc<T>>(), ids.as<int32_t>(), tokens, narrow_dim(logits, 1),
        narrow_dim(gates, 1));
    check_launch("router");
  });
}

void router_grad(Context& ctx, const Tensor& d_gates, const Tensor& gates, const Tensor& ids,
                 Tensor& d_logits, bool accumulate) {
  const int64_t tokens = gates.dim(0);
  if (tokens == 0) return;
  dispatch("router_grad", d_logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    router_grad_kernel<<<blocks_for(tokens), kThreads, 0, ctx.gpu->stream()>>>(
        d_gates.as<Acc<T>>(), gates.as<Acc<T>>(), ids.as<int32_t>(), d_logits.as<T>(), tokens,
        narrow_dim(d_logits, 1), narrow_dim(gates, 1), accumulate);
    check_launch("router_grad");
  });
}

// The caller has zeroed stats where they do not accumulate.
void router_stats(Context& ctx, const Tensor& logits, const Tensor& ids, const RouterRows& rows,
                  Tensor& stats, Tensor& load, bool /*accumulate*/) {
  constexpr const char* kOp = "router_stats";
  const int64_t tokens = logits.dim(0), experts = logits.dim(1);
  if (tokens == 0) return;
  Scratch scratch(kOp, ctx.workspace,
                  workspace::cuda::router_stats(stats.dim(0), rows.tokens_per_sequence, experts));
  const Chunks chunks(rows, tokens);
  auto* sums = scratch.take<double>(chunks.count() * 2 * experts);
  dispatch(kOp, logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    chunk_stats<<<blocks_for(chunks.count()), kThreads, 0, ctx.gpu->stream()>>>(
        logits.as<T>(), ids.as<int32_t>(), sums, chunks, narrow_dim(logits, 1), narrow_dim(ids, 1));
    check_launch(kOp);
  });
  add_chunks<<<static_cast<unsigned>(ceil_div(2 * experts, 32)), kAddWarps * 32, 0,
               ctx.gpu->stream()>>>(sums, stats.as<double>(), load.as<double>(), chunks,
                                    narrow_dim(logits, 1));
  check_launch(kOp);
}

void router_stats_grad(Context& ctx, const Tensor& logits, const Tensor& d_stats,
                       const RouterRows& rows, Tensor& d_logits, bool accumulate) {
  const int64_t tokens = logits.dim(0);
  if (tokens == 0) return;
  dispatch("router_stats_grad", logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    stats_grad_kernel<<<blocks_for(tokens), kThreads, 0, ctx.gpu->stream()>>>(
        logits.as<T>(), d_stats.as<double>(), d_logits.as<T>(), rows, tokens, narrow_dim(logits, 1),
        accumulate);
    check_launch("router_stats_grad");
  });
}

}  // namespace tessera::kernels::cuda
