#include <algorithm>
#include <cmath>

#include "base/master_weight.h"
#include "base/rounding.h"
#include "base/workspace.h"
#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/independent.h"
#include "kernels/scratch.h"
#include "kernels/update_rules.h"

namespace tessera::kernels::cpu {
namespace {

// States that a rule does not keep are of the loop alone.
template <typename Rule, typename A>
inline A updated(const typename Rule::Factors& f, A decay, A master, A* m, A* v, A grad,
                 int64_t i) {
  A none = 0, also_none = 0;
  A* const first = Rule::kStates > 0 ? m + i : &none;
  A* const second = Rule::kStates > 1 ? v + i : &also_none;
  return Rule::step(f, decay, master, *first, *second, grad);
}

// weight may be master: element i is read before it is written.
template <typename Rule, typename T, typename G>
void update_range(const typename Rule::Factors& f, Acc<T> decay, Acc<T>* master, Acc<T>* m,
                  Acc<T>* v, const G* grad, T* weight, int64_t begin, int64_t end) {
  TESSERA_INDEPENDENT
  for (int64_t i = begin; i < end; ++i) {
    const Acc<T> after = updated<Rule>(f, decay, master[i], m, v, widen(grad[i]), i);
    master[i] = after;
    weight[i] = narrow<T>(after);
  }
}

template <typename Rule, typename G>
void update_rests(const typename Rule::Factors& f, float decay, int16_t* rest, float* m, float* v,
                  const G* grad, BFloat16* weight, int64_t begin, int64_t end) {
  TESSERA_INDEPENDENT
  for (int64_t i = begin; i < end; ++i) {
    const float master = master_weight(weight[i].bits, rest[i]);
    const float after = updated<Rule>(f, decay, master, m, v, widen(grad[i]), i);
    weight[i] = BFloat16(after);
    rest[i] = rest_of_master(after, weight[i].bits);
  }
}

// `RuleIn<A>`: the rule in arithmetic of type A.
template <template <typename> typename RuleIn>
void update_buckets(const char* op, Context& ctx, std::span<const UpdatedTensors> buckets,
                    const Tensor& known, const UpdatePlace& place) {
  const auto known_factors =
      RuleIn<double>::factors(*ctx.params, known.as<double>(), known.numel(), place);
  if (known_factors.skip) return;
  dispatch(op, buckets[0].weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    using Rule = RuleIn<A>;
    const auto factors = known_factors.template to<A>();
    for (const UpdatedTensors& x : buckets) {
      const A decay = Rule::decay_of(factors, x.decay);
      with_gradient<T>(x.grad, [&](auto gradient) {
        using G = typename decltype(gradient)::type;
        ctx.workers.parallel_for(x.weight.numel(), 4096, [&](int64_t begin, int64_t end) {
          if constexpr (std::is_same_v<T, BFloat16>) {
            if (x.has_rests()) {
              return update_rests<Rule>(factors, decay, x.master.as<int16_t>(), x.m.as<float>(),
                                        x.v.as<float>(), x.grad.as<G>(), x.weight.as<BFloat16>(),
                                        begin, end);
            }
          }
          update_range<Rule, T>(factors, decay, x.master.as<A>(), x.m.as<A>(), x.v.as<A>(),
                                x.grad.as<G>(), x.weight.as<T>(), begin, end);
        });
      });
    }
  });
}

template <typename A>
using SgdWithMomentum = SgdRule<A, true>;
template <typename A>
using PlainSgd = SgdRule<A, false>;

template <typename T>
double squares_of(const T* data, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 4096;
  double sum = 0;
  for (int64_t block = begin; block < end; block += kBlock) {
    const T* x = data + block;
    sum += lane_sum<double>(std::min(kBlock, end - block), [&](int64_t i) {
      const auto value = static_cast<double>(widen(x[i]));
      return value * value;
    });
  }
  return sum;
}

// The chunks depend on the number of elements only, so every number of threads gives the same bits.
template <typename T>
double sum_in_chunks(Workers& workers, const T* x, int64_t count, double* sums) {
  constexpr int64_t kChunks = workspace::kSumChunks;
  const int64_t chunk = std::max<int64_t>(4096, ceil_div(count, kChunks));
  const int64_t used = ceil_div(count, chunk);
  workers.parallel_for(used, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      sums[i] = squares_of(x, i * chunk, std::min(count, (i + 1) * chunk));
    }
  });
  double total = 0;
  for (int64_t i = 0; i < used; ++i) total += sums[i];
  return total;
}

// Unmasked labels of part `part` of `parts` equal ones.
double unmasked(const Tensor& labels, int64_t part, int64_t parts) {
  const int64_t count = labels.numel() / parts;
  const int32_t* label = labels.as<int32_t>() + part * count;
  return static_cast<double>(std::count_if(label, label + count, [](int32_t l) { return l >= 0; }));
}

}  // namespace

void sum_squares(Context& ctx, std::span<const SquaredTensor> tensors, Tensor& metrics) {
  constexpr const char* kOp = "sum_squares";
  Scratch scratch(kOp, ctx.workspace, workspace::sum_squares(ctx.workers.size()));
  auto* sums = scratch.take<double>(workspace::kSumChunks);
  dispatch(kOp, tensors[0].x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (const SquaredTensor& t : tensors) {
      metrics.as<double>()[t.metric] += sum_in_chunks(ctx.workers, t.x.as<T>(), t.x.numel(), sums);
    }
  });
}

void add_metrics(Context& /*ctx*/, const Tensor& loss, const Tensor& labels, Tensor& metrics,
                 int64_t updates) {
  auto* numbers = metrics.as<double>();
  numbers[kMetricLoss] += loss.as<double>()[0];
  numbers[kMetricTokens] += unmasked(labels, 0, 1);
  numbers[kMetricUpdateTokens] += unmasked(labels, updates - 1, updates);
}

void count_tokens(Context& /*ctx*/, const Tensor& labels, Tensor& counts) {
  for (int64_t i = 0; i < counts.numel(); ++i) {
    counts.as<double>()[i] = unmasked(labels, i, counts.numel());
  }
}

void adamw(Context& ctx, std::span<const UpdatedTensors> buckets, const Tensor& known,
           const UpdatePlace& place) {
  update_buckets<AdamRule>("adamw", ctx, buckets, known, place);
}

void sgd(Context& ctx, std::span<const UpdatedTensors> buckets, const Tensor& known,
         const UpdatePlace& place) {
  if (buckets[0].m.data == nullptr) {
    return update_buckets<PlainSgd>("sgd", ctx, buckets, known, place);
  }
  update_buckets<SgdWithMomentum>("sgd", ctx, buckets, known, place);
}

}  // namespace tessera::kernels::cpu
