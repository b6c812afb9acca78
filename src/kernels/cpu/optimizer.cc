#include <algorithm>
#include <cmath>

#include "base/master_weight.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/independent.h"
#include "kernels/kernels.h"
#include "kernels/on_cuda.h"

namespace tessera::kernels {
namespace {

using cpu::Acc;

// The factors in the arithmetic type.
template <typename A>
struct Factors {
  explicit Factors(const AdamFactors& f)
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

// The new master weight; m and v become the new ones.
template <typename A>
inline A adam_step(const Factors<A>& f, A master, A& m, A& v, A grad) {
  const A g = grad * f.grad_scale;
  const A first = f.beta1 * m + f.one_minus_beta1 * g;
  const A second = f.beta2 * v + f.one_minus_beta2 * g * g;
  m = first;
  v = second;
  return master * f.decay - f.step_size * first / (std::sqrt(second) * f.root_scale + f.eps);
}

// weight may be master: element i is read before it is written.
template <typename T, typename G>
void adamw_range(const Factors<Acc<T>>& f, Acc<T>* master, Acc<T>* m, Acc<T>* v, const G* grad,
                 T* weight, int64_t begin, int64_t end) {
  TESSERA_INDEPENDENT
  for (int64_t i = begin; i < end; ++i) {
    const Acc<T> updated = adam_step(f, master[i], m[i], v[i], cpu::widen(grad[i]));
    master[i] = updated;
    weight[i] = cpu::narrow<T>(updated);
  }
}

template <typename G>
void adamw_rests(const Factors<float>& f, int16_t* rest, float* m, float* v, const G* grad,
                 BFloat16* weight, int64_t begin, int64_t end) {
  TESSERA_INDEPENDENT
  for (int64_t i = begin; i < end; ++i) {
    const float master = master_weight(weight[i].bits, rest[i]);
    const float updated = adam_step(f, master, m[i], v[i], cpu::widen(grad[i]));
    weight[i] = BFloat16(updated);
    rest[i] = rest_of_master(updated, weight[i].bits);
  }
}

template <typename T>
double squares_of(const T* data, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 4096;
  double sum = 0;
  for (int64_t block = begin; block < end; block += kBlock) {
    const T* x = data + block;
    sum += cpu::lane_sum<double>(std::min(kBlock, end - block), [&](int64_t i) {
      const auto value = static_cast<double>(cpu::widen(x[i]));
      return value * value;
    });
  }
  return sum;
}

// The chunks depend on the number of elements only, so every number of threads gives the same bits.
template <typename T>
double sum_in_chunks(Workers& workers, const T* x, int64_t count, double* sums) {
  constexpr int64_t kChunks = workspace::kSumChunks;
  const int64_t chunk = std::max<int64_t>(4096, (count + kChunks - 1) / kChunks);
  const int64_t used = (count + chunk - 1) / chunk;
  workers.parallel_for(used, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      sums[i] = squares_of(x, i * chunk, std::min(count, (i + 1) * chunk));
    }
  });
  double total = 0;
  for (int64_t i = 0; i < used; ++i) total += sums[i];
  return total;
}

// Of the weights' low bits (base/master_weight.h).
bool has_rests(const UpdatedTensors& x) {
  return x.weight.dtype == DType::kBF16 && x.master.dtype == DType::kBF16;
}

void check_bucket(const char* op, const UpdatedTensors& bucket, const UpdatedTensors& first) {
  const int64_t count = bucket.weight.numel();
  const DType weights = first.weight.dtype;
  const DType type = accumulate_type(weights);
  cpu::check_flat(op, "master", bucket.master, has_rests(first) ? DType::kBF16 : type, count);
  cpu::check_flat(op, "m", bucket.m, type, count);
  cpu::check_flat(op, "v", bucket.v, type, count);
  cpu::check_flat(op, "grad", bucket.grad, cpu::gradient_type(weights, first.grad), count);
  cpu::check_flat(op, "weight", bucket.weight, weights, count);
}

// Of part `part` of `parts` equal ones.
double unmasked(const Tensor& labels, int64_t part, int64_t parts) {
  const int64_t count = labels.numel() / parts;
  const int32_t* label = labels.as<int32_t>() + part * count;
  return static_cast<double>(std::count_if(label, label + count, [](int32_t l) { return l >= 0; }));
}

}  // namespace

void sum_squares(Context& ctx, std::span<const SquaredTensor> tensors, Tensor& metrics) {
  constexpr const char* kOp = "sum_squares";
  cpu::check_flat(kOp, "metrics", metrics, DType::kF64, metrics.numel());
  TESSERA_CHECK(!tensors.empty() && tensors.size() <= kMostGroupedBuckets, "{}: {} tensors", kOp,
                tensors.size());
  int64_t next = 0;
  for (const auto& [x, metric] : tensors) {
    cpu::check_flat(kOp, "x", x, tensors[0].x.dtype, x.numel());
    TESSERA_CHECK(metric >= next && metric < metrics.numel(), "{}: metric {} of {} to {}", kOp,
                  metric, next, metrics.numel());
    next = metric + 1;
  }
  TESSERA_ON_CUDA(sum_squares(ctx, tensors, metrics));
  cpu::Scratch scratch(kOp, ctx.workspace, workspace::sum_squares(ctx.workers.size()));
  auto* sums = scratch.take<double>(workspace::kSumChunks);
  cpu::dispatch(kOp, tensors[0].x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (const SquaredTensor& t : tensors) {
      metrics.as<double>()[t.metric] += sum_in_chunks(ctx.workers, t.x.as<T>(), t.x.numel(), sums);
    }
  });
}

void add_metrics(Context& ctx, const Tensor& loss, const Tensor& labels, Tensor& metrics,
                 int64_t updates) {
  constexpr const char* kOp = "add_metrics";
  cpu::check_flat(kOp, "loss", loss, DType::kF64, 1);
  cpu::check_flat(kOp, "labels", labels, DType::kI32, labels.numel());
  cpu::check_flat(kOp, "metrics", metrics, DType::kF64, metrics.numel());
  TESSERA_CHECK(metrics.numel() >= kMetricsHead && updates >= 1 && labels.numel() % updates == 0,
                "{}: {} metrics, {} labels, {} updates", kOp, metrics.numel(), labels.numel(),
                updates);
  TESSERA_ON_CUDA(add_metrics(ctx, loss, labels, metrics, updates));
  auto* numbers = metrics.as<double>();
  numbers[kMetricLoss] += loss.as<double>()[0];
  numbers[kMetricTokens] += unmasked(labels, 0, 1);
  numbers[kMetricUpdateTokens] += unmasked(labels, updates - 1, updates);
}

void count_tokens(Context& ctx, const Tensor& labels, Tensor& counts) {
  constexpr const char* kOp = "count_tokens";
  cpu::check_flat(kOp, "labels", labels, DType::kI32, labels.numel());
  cpu::check_flat(kOp, "counts", counts, DType::kF64, counts.numel());
  TESSERA_CHECK(counts.numel() > 0 && labels.numel() % counts.numel() == 0,
                "{}: {} labels in {} parts", kOp, labels.numel(), counts.numel());
  TESSERA_ON_CUDA(count_tokens(ctx, labels, counts));
  for (int64_t i = 0; i < counts.numel(); ++i) {
    counts.as<double>()[i] = unmasked(labels, i, counts.numel());
  }
}

void adamw(Context& ctx, std::span<const UpdatedTensors> buckets, const Tensor& known,
           const UpdatePlace& place) {
  constexpr const char* kOp = "adamw";
  TESSERA_CHECK(!buckets.empty() && buckets.size() <= kMostGroupedBuckets, "{}: {} buckets", kOp,
                buckets.size());
  const DType type = buckets[0].weight.dtype;
  for (const UpdatedTensors& bucket : buckets) check_bucket(kOp, bucket, buckets[0]);
  cpu::check_flat(kOp, "known", known, DType::kF64, known.numel());
  TESSERA_CHECK(known.numel() == 1 || known.numel() >= kMetricsHead, "{}: {} numbers known", kOp,
                known.numel());
  cpu::check_params(kOp, ctx.params);
  TESSERA_ON_CUDA(adamw(ctx, buckets, known, place));
  AdamFactors known_factors = adam_factors(*ctx.params, known.as<double>(), known.numel(), place);
  if (known_factors.skip) return;
  const double decay = known_factors.decay;
  cpu::dispatch(kOp, type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    for (const UpdatedTensors& x : buckets) {
      known_factors.decay = x.decay ? decay : 1;
      const Factors<A> factors(known_factors);
      cpu::with_gradient<T>(x.grad, [&](auto gradient) {
        using G = typename decltype(gradient)::type;
        ctx.workers.parallel_for(x.weight.numel(), 4096, [&](int64_t begin, int64_t end) {
          if constexpr (std::is_same_v<T, BFloat16>) {
            if (has_rests(x)) {
              return adamw_rests(factors, x.master.as<int16_t>(), x.m.as<float>(), x.v.as<float>(),
                                 x.grad.as<G>(), x.weight.as<BFloat16>(), begin, end);
            }
          }
          adamw_range<T>(factors, x.master.as<A>(), x.m.as<A>(), x.v.as<A>(), x.grad.as<G>(),
                         x.weight.as<T>(), begin, end);
        });
      });
    }
  });
}

}  // namespace tessera::kernels
