#include "kernels/elementwise.h"

#include "kernels/bodies.h"
#include "kernels/check.h"

namespace tessera::kernels {

void add(Context& ctx, const Tensor& a, const Tensor& b, Tensor& y) {
  constexpr const char* kOp = "add";
  const int64_t count = y.numel();
  check_flat(kOp, "a", a, y.dtype, count);
  check_flat(kOp, "b", b, y.dtype, count);
  check_flat(kOp, "y", y, y.dtype, count);
  bodies_of(ctx).add(ctx, a, b, y);
}

void add_bias(Context& ctx, const Tensor& x, const Tensor& b, Tensor& y) {
  constexpr const char* kOp = "add_bias";
  check_dims(kOp, "x", x, 2);
  const int64_t tokens = x.dim(0), width = x.dim(1);
  check_tensor(kOp, "x", x, x.dtype, {tokens, width});
  check_flat(kOp, "b", b, x.dtype, width);
  check_tensor(kOp, "y", y, x.dtype, {tokens, width});
  bodies_of(ctx).add_bias(ctx, x, b, y);
}

void bias_dw(Context& ctx, const Tensor& dy, Tensor& db, bool accumulate) {
  constexpr const char* kOp = "bias_dw";
  check_dims(kOp, "dy", dy, 2);
  const int64_t tokens = dy.dim(0), width = dy.dim(1);
  check_tensor(kOp, "dy", dy, dy.dtype, {tokens, width});
  check_flat(kOp, "db", db, gradient_type(dy.dtype, db), width);
  bodies_of(ctx).bias_dw(ctx, dy, db, accumulate);
}

void gelu(Context& ctx, const Tensor& x, Tensor& h) {
  constexpr const char* kOp = "gelu";
  const int64_t count = x.numel();
  check_flat(kOp, "x", x, x.dtype, count);
  check_flat(kOp, "h", h, x.dtype, count);
  bodies_of(ctx).gelu(ctx, x, h);
}

void gelu_grad(Context& ctx, const Tensor& dh, const Tensor& x, Tensor& dx) {
  constexpr const char* kOp = "gelu_grad";
  const int64_t count = x.numel();
  check_flat(kOp, "dh", dh, x.dtype, count);
  check_flat(kOp, "x", x, x.dtype, count);
  check_flat(kOp, "dx", dx, x.dtype, count);
  bodies_of(ctx).gelu_grad(ctx, dh, x, dx);
}

void swiglu(Context& ctx, const Tensor& gate_up, Tensor& h) {
  constexpr const char* kOp = "swiglu";
  check_dims(kOp, "h", h, 2);
  const int64_t tokens = h.dim(0), width = h.dim(1);
  check_tensor(kOp, "gate_up", gate_up, h.dtype, {tokens, 2 * width});
  check_tensor(kOp, "h", h, h.dtype, {tokens, width});
  bodies_of(ctx).swiglu(ctx, gate_up, h);
}

void swiglu_grad(Context& ctx, const Tensor& dh, const Tensor& gate_up, Tensor& d_gate_up) {
  constexpr const char* kOp = "swiglu_grad";
  check_dims(kOp, "dh", dh, 2);
  const int64_t tokens = dh.dim(0), width = dh.dim(1);
  check_tensor(kOp, "dh", dh, dh.dtype, {tokens, width});
  check_tensor(kOp, "gate_up", gate_up, dh.dtype, {tokens, 2 * width});
  check_tensor(kOp, "d_gate_up", d_gate_up, dh.dtype, {tokens, 2 * width});
  bodies_of(ctx).swiglu_grad(ctx, dh, gate_up, d_gate_up);
}

void dropout(Context& ctx, const Tensor& x, Tensor& y, const DropoutMask& mask,
             const SequenceRows& rows, int64_t first_token) {
  constexpr const char* kOp = "dropout";
  check_dims(kOp, "x", x, 2);
  const int64_t tokens = x.dim(0), width = x.dim(1);
  check_tensor(kOp, "x", x, x.dtype, {tokens, width});
  check_tensor(kOp, "y", y, x.dtype, {tokens, width});
  TESSERA_CHECK(mask.rate >= 0 && mask.rate < 1, "{}: rate {}", kOp, mask.rate);
  TESSERA_CHECK(rows.length() > 0 && first_token >= 0, "{}: sequences of {} from token {}", kOp,
                rows.length(), first_token);
  if (mask.on()) check_params(kOp, ctx.params);
  bodies_of(ctx).dropout(ctx, x, y, mask, rows, first_token);
}

}  // namespace tessera::kernels
