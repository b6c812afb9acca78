// What norms share: the sharing out of rows, the addition before a norm, the norm of a row or a
// head.
#pragma once

#include <cmath>

#include "kernels/context.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/independent.h"

namespace tessera::kernels::cpu {

// f(t) for every row of a norm.
template <typename F>
void for_each_row(Context& ctx, int64_t rows, const F& f) {
  constexpr int64_t kGrain = 8;
  ctx.workers.parallel_for(rows, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) f(t);
  });
}

// sum = a + b; sum may be either.
template <typename T>
void add_row(const T* a, const T* b, T* sum, int64_t width) {
  TESSERA_INDEPENDENT
  for (int64_t i = 0; i < width; ++i) sum[i] = narrow<T>(widen(a[i]) + widen(b[i]));
}

// y = x / sqrt(mean(x^2) + eps) * w, of one row or of one head of it. Returns 1 / sqrt(...).
template <typename T>
Acc<T> normalise_rms_row(const T* x, const T* w, T* y, int64_t width, double eps) {
  using A = Acc<T>;
  const A squares = lane_sum<A>(width, [&](int64_t i) {
    const A value = widen(x[i]);
    return value * value;
  });
  const A rstd = A{1} / std::sqrt(squares / static_cast<A>(width) + static_cast<A>(eps));
  for (int64_t i = 0; i < width; ++i) {
    y[i] = narrow<T>(widen(x[i]) * rstd * widen(w[i]));
  }
  return rstd;
}

// Row t of x, or null where there is no x.
template <typename T>
const T* row_of(const Tensor& x, int64_t t, int64_t width) {
  return x.data == nullptr ? nullptr : x.as<T>() + t * width;
}

}  // namespace tessera::kernels::cpu
