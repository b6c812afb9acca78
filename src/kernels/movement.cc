#include "kernels/movement.h"

#include "kernels/bodies.h"
#include "kernels/check.h"
#include "kernels/cpu/bodies.h"

namespace tessera::kernels {
namespace {

void check_columns(const char* op, const Tensor& matrix, const Tensor& blocks, int64_t groups) {
  check_dims(op, "the matrix", matrix, 2);
  check_dims(op, "the blocks", blocks, 3);
  const int64_t ranks = blocks.dim(0);
  TESSERA_CHECK(groups > 0 && ranks > 0 && matrix.dim(1) % (groups * ranks) == 0,
                "{}: {} columns in {} groups over {} ranks", op, matrix.dim(1), groups, ranks);
  check_tensor(op, "the matrix", matrix, blocks.dtype, {matrix.dim(0), matrix.dim(1)});
  check_tensor(op, "the blocks", blocks, blocks.dtype,
               {ranks, matrix.dim(0), matrix.dim(1) / ranks});
}

}  // namespace

void fill_zero(Context& ctx, Tensor& x) {
  check_flat("fill_zero", "x", x, x.dtype, x.numel());
  bodies_of(ctx).fill_zero(ctx, x);
}

void copy(Context& ctx, const Tensor& x, Tensor& y) {
  constexpr const char* kOp = "copy";
  const int64_t count = x.numel();
  check_flat(kOp, "x", x, x.dtype, count);
  check_flat(kOp, "y", y, y.dtype, count);
  bodies_of(ctx).copy(ctx, x, y);
}

void accumulate_into(Context& ctx, const Tensor& x, Tensor& y) {
  constexpr const char* kOp = "accumulate_into";
  const int64_t count = x.numel();
  check_flat(kOp, "x", x, x.dtype, count);
  check_flat(kOp, "y", y, gradient_type(x.dtype, y), count);
  bodies_of(ctx).accumulate_into(ctx, x, y);
}

void scale(Context& ctx, Tensor& x, double factor) {
  constexpr const char* kOp = "scale";
  const int64_t count = x.numel();
  check_flat(kOp, "x", x, x.dtype, count);
  bodies_of(ctx).scale(ctx, x, factor);
}

void split_columns(Context& ctx, const Tensor& x, Tensor& y, int64_t groups) {
  check_columns("split_columns", x, y, groups);
  bodies_of(ctx).split_columns(ctx, x, y, groups);
}

void join_columns(Context& ctx, const Tensor& x, Tensor& y, int64_t groups) {
  check_columns("join_columns", y, x, groups);
  bodies_of(ctx).join_columns(ctx, x, y, groups);
}

int64_t first_nonfinite(const Tensor& x) {
  check_flat("first_nonfinite", "x", x, x.dtype, x.numel());
  return cpu::first_nonfinite(x);
}

}  // namespace tessera::kernels
