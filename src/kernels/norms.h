// Norms of rows and of heads.
#pragma once

#include "kernels/context.h"

namespace tessera::kernels {

// ---- RMSNorm ----  y = x / sqrt(mean(x^2) + eps) * w;  rstd[T] in the accumulate type.
void rms_norm(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, Tensor& rstd, double eps);
// sum = a + b; then as rms_norm of sum. sum may be a or b.
void add_rms_norm(Context& ctx, const Tensor& a, const Tensor& b, const Tensor& w, Tensor& sum,
                  Tensor& y, Tensor& rstd, double eps);
// dx = the gradient through the norm, plus `residual` when its data is not null (dx may be it).
void rms_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                 const Tensor& rstd, const Tensor& residual, Tensor& dx);
void rms_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& rstd, Tensor& dw,
                 bool accumulate);
// Both; dx is overwritten whatever `accumulate` says.
void rms_norm_grad(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                   const Tensor& rstd, const Tensor& residual, Tensor& dx, Tensor& dw,
                   bool accumulate);

// ---- LayerNorm ----  y = (x - mean) * rstd * w + b;  stats[T,2] in the accumulate type: mean,
// rstd = 1 / sqrt(variance + eps).
void layer_norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y,
                Tensor& stats, double eps);
// sum = a1 + a2; then as layer_norm of sum. sum may be a1 or a2.
void add_layer_norm(Context& ctx, const Tensor& a1, const Tensor& a2, const Tensor& w,
                    const Tensor& b, Tensor& sum, Tensor& y, Tensor& stats, double eps);
// dx = the gradient through the norm, plus `residual` when its data is not null (dx may be it).
void layer_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                   const Tensor& stats, const Tensor& residual, Tensor& dx);
// The gradient of b is bias_dw of dy.
void layer_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& stats, Tensor& dw,
                   bool accumulate);
// layer_norm_dw, and db = bias_dw of dy. dw and db are of one type.
void layer_norm_dw_bias(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& stats,
                        Tensor& dw, Tensor& db, bool accumulate);
// All three; dx is overwritten whatever `accumulate` says.
void layer_norm_grad(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                     const Tensor& stats, const Tensor& residual, Tensor& dx, Tensor& dw,
                     Tensor& db, bool accumulate);

// ---- RMSNorm of every head ----  x[T,W] begins with heads of D columns; each is normalised on its
// own and multiplied by w[D]; the columns after them are copied. rstd[T, heads].
void head_norm(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, Tensor& rstd, double eps);
// dx may be dy.
void head_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                  const Tensor& rstd, Tensor& dx);
void head_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& rstd, Tensor& dw,
                  bool accumulate);

}  // namespace tessera::kernels
