// Several gradients of a norm: on the CPU one kernel after the other.
#include "kernels/cpu/check.h"
#include "kernels/kernels.h"
#include "kernels/on_cuda.h"

namespace tessera::kernels {
namespace {

void check_rows(const char* op, const Tensor& dy, const Tensor& x, const Tensor& stats,
                int64_t stats_per_row) {
  cpu::check_dims(op, "x", x, 2);
  const int64_t tokens = x.dim(0), width = x.dim(1);
  cpu::check_tensor(op, "dy", dy, x.dtype, {tokens, width});
  cpu::check_tensor(op, "x", x, x.dtype, {tokens, width});
  cpu::check_flat(op, "statistics", stats, accumulate_type(x.dtype), tokens * stats_per_row);
}

void check_dx(const char* op, const Tensor& x, const Tensor& w, const Tensor& residual,
              const Tensor& dx) {
  const int64_t tokens = x.dim(0), width = x.dim(1);
  cpu::check_flat(op, "w", w, x.dtype, width);
  if (residual.data != nullptr) {
    cpu::check_tensor(op, "residual", residual, x.dtype, {tokens, width});
  }
  cpu::check_tensor(op, "dx", dx, x.dtype, {tokens, width});
}

}  // namespace

void layer_norm_dw_bias(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& stats,
                        Tensor& dw, Tensor& db, bool accumulate) {
  constexpr const char* kOp = "layer_norm_dw_bias";
  check_rows(kOp, dy, x, stats, 2);
  cpu::check_flat(kOp, "dw", dw, cpu::gradient_type(x.dtype, dw), x.dim(1));
  cpu::check_flat(kOp, "db", db, dw.dtype, x.dim(1));
  TESSERA_ON_CUDA(layer_norm_dw_bias(ctx, dy, x, stats, dw, db, accumulate));
  layer_norm_dw(ctx, dy, x, stats, dw, accumulate);
  bias_dw(ctx, dy, db, accumulate);
}

void layer_norm_grad(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                     const Tensor& stats, const Tensor& residual, Tensor& dx, Tensor& dw,
                     Tensor& db, bool accumulate) {
  constexpr const char* kOp = "layer_norm_grad";
  check_rows(kOp, dy, x, stats, 2);
  check_dx(kOp, x, w, residual, dx);
  cpu::check_flat(kOp, "dw", dw, cpu::gradient_type(x.dtype, dw), x.dim(1));
  cpu::check_flat(kOp, "db", db, dw.dtype, x.dim(1));
  TESSERA_ON_CUDA(layer_norm_grad(ctx, dy, x, w, stats, residual, dx, dw, db, accumulate));
  layer_norm_dx(ctx, dy, x, w, stats, residual, dx);
  layer_norm_dw_bias(ctx, dy, x, stats, dw, db, accumulate);
}

void rms_norm_grad(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                   const Tensor& rstd, const Tensor& residual, Tensor& dx, Tensor& dw,
                   bool accumulate) {
  constexpr const char* kOp = "rms_norm_grad";
  check_rows(kOp, dy, x, rstd, 1);
  check_dx(kOp, x, w, residual, dx);
  cpu::check_flat(kOp, "dw", dw, cpu::gradient_type(x.dtype, dw), x.dim(1));
  TESSERA_ON_CUDA(rms_norm_grad(ctx, dy, x, w, rstd, residual, dx, dw, accumulate));
  rms_norm_dx(ctx, dy, x, w, rstd, residual, dx);
  rms_norm_dw(ctx, dy, x, rstd, dw, accumulate);
}

}  // namespace tessera::kernels
