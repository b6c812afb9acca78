#include "kernels/norms.h"

#include "kernels/bodies.h"
#include "kernels/check.h"

namespace tessera::kernels {
namespace {

// Rows of a norm, with one number or two kept of each.
void check_rows(const char* op, const Tensor& x, const Tensor& stats, int64_t stats_per_row) {
  check_dims(op, "x", x, 2);
  const int64_t tokens = x.dim(0);
  check_tensor(op, "x", x, x.dtype, {tokens, x.dim(1)});
  if (stats_per_row == 1) {
    check_flat(op, "rstd", stats, accumulate_type(x.dtype), tokens);
  } else {
    check_tensor(op, "stats", stats, accumulate_type(x.dtype), {tokens, stats_per_row});
  }
}

void check_like(const char* op, const char* name, const Tensor& tensor, const Tensor& x) {
  check_tensor(op, name, tensor, x.dtype, {x.dim(0), x.dim(1)});
}

void check_dx(const char* op, const Tensor& x, const Tensor& w, const Tensor& residual,
              const Tensor& dx) {
  check_flat(op, "w", w, x.dtype, x.dim(1));
  if (residual.data != nullptr) check_like(op, "residual", residual, x);
  check_like(op, "dx", dx, x);
}

void check_dw(const char* op, const Tensor& x, const Tensor& dw) {
  check_flat(op, "dw", dw, gradient_type(x.dtype, dw), x.dim(1));
}

void check_dw_bias(const char* op, const Tensor& x, const Tensor& dw, const Tensor& db) {
  check_dw(op, x, dw);
  check_flat(op, "db", db, dw.dtype, x.dim(1));
}

void check_rms_norm(const char* op, const Tensor& x, const Tensor& w, const Tensor& y,
                    const Tensor& rstd) {
  check_rows(op, x, rstd, 1);
  check_flat(op, "w", w, x.dtype, x.dim(1));
  check_like(op, "y", y, x);
}

void check_layer_norm(const char* op, const Tensor& x, const Tensor& w, const Tensor& b,
                      const Tensor& y, const Tensor& stats) {
  check_rows(op, x, stats, 2);
  check_flat(op, "w", w, x.dtype, x.dim(1));
  check_flat(op, "b", b, x.dtype, x.dim(1));
  check_like(op, "y", y, x);
}

// Throws InternalError unless x[T, W] begins with rstd[T, heads]'s heads of w[D]'s width.
void check_heads(const char* op, const Tensor& x, const Tensor& w, DType weight_type,
                 const Tensor& rstd) {
  check_dims(op, "x", x, 2);
  check_dims(op, "rstd", rstd, 2);
  const int64_t tokens = x.dim(0), width = x.dim(1), heads = rstd.dim(1);
  check_tensor(op, "x", x, x.dtype, {tokens, width});
  check_flat(op, "w", w, weight_type, w.numel());
  check_tensor(op, "rstd", rstd, accumulate_type(x.dtype), {tokens, heads});
  TESSERA_CHECK(heads * w.numel() <= width, "{}: {} heads of {} columns in a row of {}", op, heads,
                w.numel(), width);
}

}  // namespace

void rms_norm(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, Tensor& rstd, double eps) {
  check_rms_norm("rms_norm", x, w, y, rstd);
  bodies_of(ctx).rms_norm(ctx, x, w, y, rstd, eps);
}

void add_rms_norm(Context& ctx, const Tensor& a, const Tensor& b, const Tensor& w, Tensor& sum,
                  Tensor& y, Tensor& rstd, double eps) {
  constexpr const char* kOp = "add_rms_norm";
  check_rms_norm(kOp, sum, w, y, rstd);
  check_like(kOp, "a", a, sum);
  check_like(kOp, "b", b, sum);
  bodies_of(ctx).add_rms_norm(ctx, a, b, w, sum, y, rstd, eps);
}

void rms_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                 const Tensor& rstd, const Tensor& residual, Tensor& dx) {
  constexpr const char* kOp = "rms_norm_dx";
  check_rows(kOp, x, rstd, 1);
  check_like(kOp, "dy", dy, x);
  check_dx(kOp, x, w, residual, dx);
  bodies_of(ctx).rms_norm_dx(ctx, dy, x, w, rstd, residual, dx);
}

void rms_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& rstd, Tensor& dw,
                 bool accumulate) {
  constexpr const char* kOp = "rms_norm_dw";
  check_rows(kOp, x, rstd, 1);
  check_like(kOp, "dy", dy, x);
  check_dw(kOp, x, dw);
  bodies_of(ctx).rms_norm_dw(ctx, dy, x, rstd, dw, accumulate);
}

void rms_norm_grad(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                   const Tensor& rstd, const Tensor& residual, Tensor& dx, Tensor& dw,
                   bool accumulate) {
  constexpr const char* kOp = "rms_norm_grad";
  check_rows(kOp, x, rstd, 1);
  check_like(kOp, "dy", dy, x);
  check_dx(kOp, x, w, residual, dx);
  check_dw(kOp, x, dw);
  bodies_of(ctx).rms_norm_grad(ctx, dy, x, w, rstd, residual, dx, dw, accumulate);
}

void layer_norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y,
                Tensor& stats, double eps) {
  check_layer_norm("layer_norm", x, w, b, y, stats);
  bodies_of(ctx).layer_norm(ctx, x, w, b, y, stats, eps);
}

void add_layer_norm(Context& ctx, const Tensor& a1, const Tensor& a2, const Tensor& w,
                    const Tensor& b, Tensor& sum, Tensor& y, Tensor& stats, double eps) {
  constexpr const char* kOp = "add_layer_norm";
  check_layer_norm(kOp, sum, w, b, y, stats);
  check_like(kOp, "a1", a1, sum);
  check_like(kOp, "a2", a2, sum);
  bodies_of(ctx).add_layer_norm(ctx, a1, a2, w, b, sum, y, stats, eps);
}

void layer_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                   const Tensor& stats, const Tensor& residual, Tensor& dx) {
  constexpr const char* kOp = "layer_norm_dx";
  check_rows(kOp, x, stats, 2);
  check_like(kOp, "dy", dy, x);
  check_dx(kOp, x, w, residual, dx);
  bodies_of(ctx).layer_norm_dx(ctx, dy, x, w, stats, residual, dx);
}

void layer_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& stats, Tensor& dw,
                   bool accumulate) {
  constexpr const char* kOp = "layer_norm_dw";
  check_rows(kOp, x, stats, 2);
  check_like(kOp, "dy", dy, x);
  check_dw(kOp, x, dw);
  bodies_of(ctx).layer_norm_dw(ctx, dy, x, stats, dw, accumulate);
}

void layer_norm_dw_bias(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& stats,
                        Tensor& dw, Tensor& db, bool accumulate) {
  constexpr const char* kOp = "layer_norm_dw_bias";
  check_rows(kOp, x, stats, 2);
  check_like(kOp, "dy", dy, x);
  check_dw_bias(kOp, x, dw, db);
  bodies_of(ctx).layer_norm_dw_bias(ctx, dy, x, stats, dw, db, accumulate);
}

void layer_norm_grad(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                     const Tensor& stats, const Tensor& residual, Tensor& dx, Tensor& dw,
                     Tensor& db, bool accumulate) {
  constexpr const char* kOp = "layer_norm_grad";
  check_rows(kOp, x, stats, 2);
  check_like(kOp, "dy", dy, x);
  check_dx(kOp, x, w, residual, dx);
  check_dw_bias(kOp, x, dw, db);
  bodies_of(ctx).layer_norm_grad(ctx, dy, x, w, stats, residual, dx, dw, db, accumulate);
}

void head_norm(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, Tensor& rstd,
               double eps) {
  constexpr const char* kOp = "head_norm";
  check_heads(kOp, x, w, x.dtype, rstd);
  check_like(kOp, "y", y, x);
  bodies_of(ctx).head_norm(ctx, x, w, y, rstd, eps);
}

void head_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                  const Tensor& rstd, Tensor& dx) {
  constexpr const char* kOp = "head_norm_dx";
  check_heads(kOp, x, w, x.dtype, rstd);
  check_like(kOp, "dy", dy, x);
  check_like(kOp, "dx", dx, x);
  bodies_of(ctx).head_norm_dx(ctx, dy, x, w, rstd, dx);
}

void head_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& rstd, Tensor& dw,
                  bool accumulate) {
  constexpr const char* kOp = "head_norm_dw";
  check_heads(kOp, x, dw, gradient_type(x.dtype, dw), rstd);
  check_like(kOp, "dy", dy, x);
  bodies_of(ctx).head_norm_dw(ctx, dy, x, rstd, dw, accumulate);
}

}  // namespace tessera::kernels
