// Loops over rows that take an exponential of every element: those of f32 at the level of this
// process (by_level.cc, on other CPUs than x86-64 one_level.cc), others
// as they are compiled for all CPUs.
#pragma once

#include "kernels/cpu/levels/exponentials.h"
#include "kernels/cpu/swiglu_row.h"

namespace tessera::kernels::cpu {

const levels::Exponentials& exponentials();

// What the members of levels::Exponentials do, of any type.
inline float largest(const float* row, int64_t count) { return exponentials().largest(row, count); }
template <typename T>
Acc<T> largest(const T* row, int64_t count) {
  return lane_max<Acc<T>>(count, [&](int64_t i) { return widen(row[i]); });
}

inline float soften(float* row, int64_t count, float max) {
  return exponentials().soften(row, count, max);
}
inline double soften(double* row, int64_t count, double max) {
  return lane_sum<double>(count, [&](int64_t i) { return row[i] = fast_exp(row[i] - max); });
}

inline float sum_of_exponentials(const float* row, int64_t count, float max) {
  return exponentials().sum(row, count, max);
}
template <typename T>
Acc<T> sum_of_exponentials(const T* row, int64_t count, Acc<T> max) {
  return lane_sum<Acc<T>>(count, [&](int64_t i) { return fast_exp(widen(row[i]) - max); });
}

inline void scaled_exponentials(const float* row, int64_t count, float max, float factor,
                                float* to) {
  exponentials().scaled(row, count, max, factor, to);
}
template <typename T>
void scaled_exponentials(const T* row, int64_t count, Acc<T> max, Acc<T> factor, T* to) {
  TESSERA_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) to[i] = narrow<T>(fast_exp(widen(row[i]) - max) * factor);
}

inline void soften_grad(float* scores, float* d_scores, int64_t count, float lse, float dot) {
  exponentials().soften_grad(scores, d_scores, count, lse, dot);
}
inline void soften_grad(double* scores, double* d_scores, int64_t count, double lse, double dot) {
  for (int64_t i = 0; i < count; ++i) {
    const double p = fast_exp(scores[i] - lse);
    scores[i] = p;
    d_scores[i] = p * (d_scores[i] - dot);
  }
}

}  // namespace tessera::kernels::cpu
