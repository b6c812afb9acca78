// Element by element, or row by row: sums, activations, dropout.
#pragma once

#include "base/dropout.h"
#include "base/sequence_rows.h"
#include "kernels/context.h"

namespace tessera::kernels {

// ---- element-wise ----  y = a + b; y may be a or b.
void add(Context& ctx, const Tensor& a, const Tensor& b, Tensor& y);

// ---- bias ----  y[t] = x[t] + b; y may be x.
void add_bias(Context& ctx, const Tensor& x, const Tensor& b, Tensor& y);
// db[N] = sum over t of dy[t]
void bias_dw(Context& ctx, const Tensor& dy, Tensor& db, bool accumulate);

// ---- GELU ----  the tanh form: h = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2; h may be x.
void gelu(Context& ctx, const Tensor& x, Tensor& h);
// dx may be x or dh.
void gelu_grad(Context& ctx, const Tensor& dh, const Tensor& x, Tensor& dx);

// ---- SwiGLU ----  gate_up[T, 2F] (gate first); h[T,F] = silu(gate) * up
void swiglu(Context& ctx, const Tensor& gate_up, Tensor& h);
// d_gate_up may be gate_up.
void swiglu_grad(Context& ctx, const Tensor& dh, const Tensor& gate_up, Tensor& d_gate_up);

// ---- dropout ----  y = x * mask; y may be x. Row t is row first_token + t of the micro-batch,
// `rows` says of which position. The gradient is the same call on dy. Reads ctx.params.
void dropout(Context& ctx, const Tensor& x, Tensor& y, const DropoutMask& mask,
             const SequenceRows& rows, int64_t first_token);

}  // namespace tessera::kernels
