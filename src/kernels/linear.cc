#include "kernels/linear.h"

#include "kernels/bodies.h"
#include "kernels/check.h"

namespace tessera::kernels {
namespace {

void check_linear(const char* op, const Tensor& x, const Tensor& w, const Tensor& y) {
  check_dims(op, "x", x, 2);
  check_dims(op, "w", w, 2);
  const int64_t tokens = x.dim(0), in = x.dim(1), out = w.dim(0);
  check_tensor(op, "x", x, x.dtype, {tokens, in});
  check_tensor(op, "w", w, x.dtype, {out, in});
  check_tensor(op, "y", y, x.dtype, {tokens, out});
}

void check_linear_dx(const char* op, const Tensor& dy, const Tensor& w, const Tensor& dx) {
  check_dims(op, "dy", dy, 2);
  check_dims(op, "w", w, 2);
  const int64_t tokens = dy.dim(0), out = dy.dim(1), in = w.dim(1);
  check_tensor(op, "dy", dy, dy.dtype, {tokens, out});
  check_tensor(op, "w", w, dy.dtype, {out, in});
  check_tensor(op, "dx", dx, dy.dtype, {tokens, in});
}

void check_linear_dw(const char* op, const Tensor& dy, const Tensor& x, const Tensor& dw) {
  check_dims(op, "dy", dy, 2);
  check_dims(op, "x", x, 2);
  const int64_t tokens = dy.dim(0), out = dy.dim(1), in = x.dim(1);
  check_tensor(op, "dy", dy, dy.dtype, {tokens, out});
  check_tensor(op, "x", x, dy.dtype, {tokens, in});
  check_tensor(op, "dw", dw, gradient_type(dy.dtype, dw), {out, in});
}

}  // namespace

void linear(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y) {
  check_linear("linear", x, w, y);
  bodies_of(ctx).linear(ctx, x, w, y);
}

void linear_dx(Context& ctx, const Tensor& dy, const Tensor& w, Tensor& dx, bool accumulate) {
  check_linear_dx("linear_dx", dy, w, dx);
  bodies_of(ctx).linear_dx(ctx, dy, w, dx, accumulate);
}

void linear_dw(Context& ctx, const Tensor& dy, const Tensor& x, Tensor& dw, bool accumulate) {
  check_linear_dw("linear_dw", dy, x, dw);
  bodies_of(ctx).linear_dw(ctx, dy, x, dw, accumulate);
}

void linear_bias(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, Tensor& z,
                 Tensor& h) {
  constexpr const char* kOp = "linear_bias";
  check_linear(kOp, x, w, z);
  check_flat(kOp, "b", b, x.dtype, z.dim(1));
  if (h.data != nullptr) check_flat(kOp, "h", h, x.dtype, z.numel());
  bodies_of(ctx).linear_bias(ctx, x, w, b, z, h);
}

void linear_dx_gelu(Context& ctx, const Tensor& dy, const Tensor& w, const Tensor& z, Tensor& dz) {
  constexpr const char* kOp = "linear_dx_gelu";
  check_linear_dx(kOp, dy, w, dz);
  check_flat(kOp, "z", z, dy.dtype, dz.numel());
  bodies_of(ctx).linear_dx_gelu(ctx, dy, w, z, dz);
}

void linear_dw_bias(Context& ctx, const Tensor& dy, const Tensor& x, Tensor& dw, Tensor& db,
                    bool accumulate) {
  constexpr const char* kOp = "linear_dw_bias";
  check_linear_dw(kOp, dy, x, dw);
  check_flat(kOp, "db", db, gradient_type(dy.dtype, db), dy.dim(1));
  bodies_of(ctx).linear_dw_bias(ctx, dy, x, dw, db, accumulate);
}

}  // namespace tessera::kernels
