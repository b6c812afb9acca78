// Linear layers, and what follows them at once (kernels/context.h has the letters and the rules).
#pragma once

#include "kernels/context.h"

namespace tessera::kernels {

// ---- linear ----  y[T,N] = x[T,K] w[N,K]^T
void linear(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y);
// dx[T,K] = dy[T,N] w[N,K]   (+= when accumulate)
void linear_dx(Context& ctx, const Tensor& dy, const Tensor& w, Tensor& dx, bool accumulate);
// dw[N,K] = dy[T,N]^T x[T,K]
void linear_dw(Context& ctx, const Tensor& dy, const Tensor& x, Tensor& dw, bool accumulate);

// ---- linear, and what follows it ----
// z = x w^T + b; h = gelu(z) unless its data is null. h may be z.
void linear_bias(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, Tensor& z,
                 Tensor& h);
// dz = the gradient through gelu(z) of dy w. dz is not z.
void linear_dx_gelu(Context& ctx, const Tensor& dy, const Tensor& w, const Tensor& z, Tensor& dz);
// linear_dw, and db = bias_dw of dy.
void linear_dw_bias(Context& ctx, const Tensor& dy, const Tensor& x, Tensor& dw, Tensor& db,
                    bool accumulate);

// "BLIS 0.9.0", "OpenBLAS 0.3.21", … for `tessera doctor`.
const char* blas_name();

}  // namespace tessera::kernels
