#include <algorithm>
#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/kernels.h"

namespace tessera::kernels {
namespace {

using cpu::Acc;

template <typename A>
struct AdamFactors {
  A decay, beta1, beta2, one_minus_beta1, one_minus_beta2, step_size, root_scale, eps, grad_scale;
};

template <typename A>
AdamFactors<A> adam_factors(const AdamW& o) {
  const auto step = static_cast<double>(o.step);
  const double correction1 = 1 - std::pow(o.beta1, step);
  const double correction2 = 1 - std::pow(o.beta2, step);
  return {.decay = static_cast<A>(1 - o.lr * o.weight_decay),
          .beta1 = static_cast<A>(o.beta1),
          .beta2 = static_cast<A>(o.beta2),
          .one_minus_beta1 = static_cast<A>(1 - o.beta1),
          .one_minus_beta2 = static_cast<A>(1 - o.beta2),
          .step_size = static_cast<A>(o.lr / correction1),
          .root_scale = static_cast<A>(1 / std::sqrt(correction2)),
          .eps = static_cast<A>(o.eps),
          .grad_scale = static_cast<A>(o.grad_scale)};
}

// weight may be master: element i is read before it is written.
template <typename T>
void adamw_range(const AdamFactors<Acc<T>>& f, Acc<T>* master, Acc<T>* m, Acc<T>* v,
                 const Acc<T>* grad, T* weight, int64_t begin, int64_t end) {
  using A = Acc<T>;
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    const A g = grad[i] * f.grad_scale;
    const A first = f.beta1 * m[i] + f.one_minus_beta1 * g;
    const A second = f.beta2 * v[i] + f.one_minus_beta2 * g * g;
    const A updated =
        master[i] * f.decay - f.step_size * first / (std::sqrt(second) * f.root_scale + f.eps);
    m[i] = first;
    v[i] = second;
    master[i] = updated;
    weight[i] = cpu::narrow<T>(updated);
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

}  // namespace

// The chunks depend on the number of elements only, so every number of threads gives the same bits.
void sum_squares(Context& ctx, const Tensor& x, double* sum) {
  constexpr const char* kOp = "sum_squares";
  constexpr int64_t kChunks = workspace::kSumChunks;
  const int64_t count = x.numel();
  cpu::check_flat(kOp, "x", x, x.dtype, count);
  cpu::Scratch scratch(kOp, ctx.workspace, workspace::sum_squares(ctx.workers.size()));
  auto* sums = scratch.take<double>(kChunks);
  cpu::dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t chunk = std::max<int64_t>(4096, (count + kChunks - 1) / kChunks);
    const int64_t used = (count + chunk - 1) / chunk;
    ctx.workers.parallel_for(used, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        sums[i] = squares_of(x.as<T>(), i * chunk, std::min(count, (i + 1) * chunk));
      }
    });
    double total = 0;
    for (int64_t i = 0; i < used; ++i) total += sums[i];
    *sum = total;
  });
}

void adamw(Context& ctx, Tensor& master, Tensor& m, Tensor& v, const Tensor& grad, Tensor& weight,
           const AdamW& options) {
  constexpr const char* kOp = "adamw";
  const int64_t count = weight.numel();
  const DType type = accumulate_type(weight.dtype);
  cpu::check_flat(kOp, "master", master, type, count);
  cpu::check_flat(kOp, "m", m, type, count);
  cpu::check_flat(kOp, "v", v, type, count);
  cpu::check_flat(kOp, "grad", grad, type, count);
  cpu::check_flat(kOp, "weight", weight, weight.dtype, count);
  TESSERA_CHECK(options.step >= 1, "adamw: step {}", options.step);
  cpu::dispatch(kOp, weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    const AdamFactors<A> factors = adam_factors<A>(options);
    ctx.workers.parallel_for(count, 4096, [&](int64_t begin, int64_t end) {
      adamw_range<T>(factors, master.as<A>(), m.as<A>(), v.as<A>(), grad.as<A>(), weight.as<T>(),
                     begin, end);
    });
  });
}

}  // namespace tessera::kernels
