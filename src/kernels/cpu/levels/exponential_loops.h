// The loops of exponentials, for the level of the source that includes this: each has functions of
// its own. What they call of other headers is always inlined, or takes a type of this source.
#pragma once

#include "kernels/cpu/levels/exponentials.h"
#include "kernels/cpu/swiglu_row.h"

namespace tessera::kernels::cpu::levels {
namespace {

float largest(const float* row, int64_t count) {
  return lane_max<float>(count, [&](int64_t i) { return row[i]; });
}

float soften(float* row, int64_t count, float max) {
  return lane_sum<float>(count, [&](int64_t i) { return row[i] = fast_exp(row[i] - max); });
}

float sum_of_exponentials(const float* row, int64_t count, float max) {
  return lane_sum<float>(count, [&](int64_t i) { return fast_exp(row[i] - max); });
}

void scaled(const float* row, int64_t count, float max, float factor, float* to) {
  TESSERA_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) to[i] = fast_exp(row[i] - max) * factor;
}

void soften_grad(float* scores, float* d_scores, int64_t count, float lse, float dot) {
  TESSERA_INDEPENDENT
  for (int64_t i = 0; i < count; ++i) {
    const float p = fast_exp(scores[i] - lse);
    scores[i] = p;
    d_scores[i] = p * (d_scores[i] - dot);
  }
}

void swiglu(const float* gate, const float* up, float* h, int64_t width) {
  swiglu_row(gate, up, h, width);
}

void swiglu_grad(const float* dh, const float* gate, const float* up, float* d_gate, float* d_up,
                 int64_t width) {
  swiglu_grad_row(dh, gate, up, d_gate, d_up, width);
}

constexpr Exponentials kExponentials = {largest,     soften, sum_of_exponentials, scaled,
                                        soften_grad, swiglu, swiglu_grad};

}  // namespace
}  // namespace tessera::kernels::cpu::levels
