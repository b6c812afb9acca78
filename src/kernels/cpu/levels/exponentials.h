// Loops over rows that take an exponential of every element, for one instruction set (product.h
// says how the objects of a level are kept apart). Elements and the lanes of sums are computed
// alike on all levels: so are the bits.
#pragma once

#include <cstdint>

namespace tessera::kernels::cpu::levels {

struct Exponentials {
  // The largest of a row, or -inf for none.
  float (*largest)(const float* row, int64_t count);
  // row = exp(row - max); returns the sum.
  float (*soften)(float* row, int64_t count, float max);
  // That sum alone.
  float (*sum)(const float* row, int64_t count, float max);
  // to = exp(row - max) * factor; `to` may be row.
  void (*scaled)(const float* row, int64_t count, float max, float factor, float* to);
  // scores -> probabilities p = exp(scores - lse), d_scores -> p * (d_scores - dot).
  void (*soften_grad)(float* scores, float* d_scores, int64_t count, float lse, float dot);
  // h = gate * sigmoid(gate) * up.
  void (*swiglu)(const float* gate, const float* up, float* h, int64_t width);
  // d_gate may be gate, and d_up may be up.
  void (*swiglu_grad)(const float* dh, const float* gate, const float* up, float* d_gate,
                      float* d_up, int64_t width);
};

extern const Exponentials kExponentialsBase;
extern const Exponentials kExponentialsV3;
extern const Exponentials kExponentialsV4;

}  // namespace tessera::kernels::cpu::levels
