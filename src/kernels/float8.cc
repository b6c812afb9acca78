#include "kernels/float8.h"

#include "kernels/bodies.h"
#include "kernels/check.h"

namespace tessera::kernels {
namespace {

void check_amax(const char* op, const Tensor& amax, int64_t rows, int64_t cols,
                const Scaling& scaling) {
  check_tensor(op, "amax", amax, DType::kF32, {scaling.row_tiles(rows), scaling.col_tiles(cols)});
}

void check_codes(const char* op, const char* name, const Float8Matrix& x, int64_t rows,
                 int64_t cols) {
  check_tensor(op, name, x.codes, DType::kU8, {rows, cols});
  check_amax(op, x.amax, rows, cols, x.scaling);
}

}  // namespace

void amax(Context& ctx, const Tensor& x, Tensor& amax, const Scaling& scaling) {
  check_dims("amax", "x", x, 2);
  check_amax("amax", amax, x.dim(0), x.dim(1), scaling);
  bodies_of(ctx).amax(ctx, x, amax, scaling);
}

void quantise(Context& ctx, const Tensor& x, const Tensor& amax, Tensor& codes,
              const Scaling& scaling) {
  check_dims("quantise", "x", x, 2);
  check_codes("quantise", "codes", {codes, amax, scaling}, x.dim(0), x.dim(1));
  bodies_of(ctx).quantise(ctx, x, amax, codes, scaling);
}

void fp8_linear(Context& ctx, const Float8Matrix& x, const Float8Matrix& w, Tensor& y) {
  constexpr const char* kOp = "fp8_linear";
  check_dims(kOp, "x", x.codes, 2);
  check_dims(kOp, "w", w.codes, 2);
  const int64_t tokens = x.codes.dim(0), in = x.codes.dim(1), out = w.codes.dim(0);
  check_codes(kOp, "x", x, tokens, in);
  check_codes(kOp, "w", w, out, in);
  check_tensor(kOp, "y", y, y.dtype, {tokens, out});
  bodies_of(ctx).fp8_linear(ctx, x, w, y);
}

void fp8_linear_dx(Context& ctx, const Float8Matrix& dy, const Float8Matrix& w, Tensor& dx,
                   bool accumulate) {
  constexpr const char* kOp = "fp8_linear_dx";
  check_dims(kOp, "dy", dy.codes, 2);
  check_dims(kOp, "w", w.codes, 2);
  const int64_t tokens = dy.codes.dim(0), out = dy.codes.dim(1), in = w.codes.dim(1);
  check_codes(kOp, "dy", dy, tokens, out);
  check_codes(kOp, "w", w, out, in);
  check_tensor(kOp, "dx", dx, dx.dtype, {tokens, in});
  bodies_of(ctx).fp8_linear_dx(ctx, dy, w, dx, accumulate);
}

void fp8_linear_dw(Context& ctx, const Float8Matrix& dy, const Float8Matrix& x, Tensor& dw,
                   DType type, bool accumulate) {
  constexpr const char* kOp = "fp8_linear_dw";
  check_dims(kOp, "dy", dy.codes, 2);
  check_dims(kOp, "x", x.codes, 2);
  const int64_t tokens = dy.codes.dim(0), out = dy.codes.dim(1), in = x.codes.dim(1);
  check_codes(kOp, "dy", dy, tokens, out);
  check_codes(kOp, "x", x, tokens, in);
  check_tensor(kOp, "dw", dw, gradient_type(type, dw), {out, in});
  bodies_of(ctx).fp8_linear_dw(ctx, dy, x, dw, type, accumulate);
}

}  // namespace tessera::kernels
