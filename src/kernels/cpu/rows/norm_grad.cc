// Several gradients of a norm: on the CPU one kernel after the other.
#include "kernels/cpu/bodies.h"

namespace tessera::kernels::cpu {

void layer_norm_dw_bias(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& stats,
                        Tensor& dw, Tensor& db, bool accumulate) {
  cpu::layer_norm_dw(ctx, dy, x, stats, dw, accumulate);
  cpu::bias_dw(ctx, dy, db, accumulate);
}

void layer_norm_grad(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                     const Tensor& stats, const Tensor& residual, Tensor& dx, Tensor& dw,
                     Tensor& db, bool accumulate) {
  cpu::layer_norm_dx(ctx, dy, x, w, stats, residual, dx);
  cpu::layer_norm_dw_bias(ctx, dy, x, stats, dw, db, accumulate);
}

void rms_norm_grad(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                   const Tensor& rstd, const Tensor& residual, Tensor& dx, Tensor& dw,
                   bool accumulate) {
  cpu::rms_norm_dx(ctx, dy, x, w, rstd, residual, dx);
  cpu::rms_norm_dw(ctx, dy, x, rstd, dw, accumulate);
}

}  // namespace tessera::kernels::cpu
