#include "kernels/embedding.h"

#include "kernels/bodies.h"
#include "kernels/check.h"

namespace tessera::kernels {
namespace {

void check_positions(const char* op, const Tensor& table, const SequenceRows& rows,
                     int64_t first_token) {
  TESSERA_CHECK(rows.length() > 0 && rows.seq_len <= table.dim(0) && first_token >= 0,
                "{}: sequences of {} from token {} with {} positions", op, rows.seq_len,
                first_token, table.dim(0));
}

}  // namespace

void embedding(Context& ctx, const Tensor& ids, const Tensor& table, Tensor& y, int64_t first_row) {
  constexpr const char* kOp = "embedding";
  check_dims(kOp, "table", table, 2);
  const int64_t tokens = ids.numel(), rows = table.dim(0), width = table.dim(1);
  check_flat(kOp, "ids", ids, DType::kI32, tokens);
  check_tensor(kOp, "table", table, y.dtype, {rows, width});
  check_tensor(kOp, "y", y, table.dtype, {tokens, width});
  bodies_of(ctx).embedding(ctx, ids, table, y, first_row);
}

void embedding_dw(Context& ctx, const Tensor& ids, const Tensor& dy, Tensor& dtable,
                  int64_t first_row, bool accumulate) {
  constexpr const char* kOp = "embedding_dw";
  check_dims(kOp, "dtable", dtable, 2);
  const int64_t tokens = ids.numel(), rows = dtable.dim(0), width = dtable.dim(1);
  check_flat(kOp, "ids", ids, DType::kI32, tokens);
  check_tensor(kOp, "dy", dy, dy.dtype, {tokens, width});
  check_tensor(kOp, "dtable", dtable, gradient_type(dy.dtype, dtable), {rows, width});
  if (!accumulate) bodies_of(ctx).fill_zero(ctx, dtable);  // bodies add
  bodies_of(ctx).embedding_dw(ctx, ids, dy, dtable, first_row, accumulate);
}

void add_positions(Context& ctx, const Tensor& x, const Tensor& table, Tensor& y,
                   const SequenceRows& rows, int64_t first_token) {
  constexpr const char* kOp = "add_positions";
  check_dims(kOp, "x", x, 2);
  check_dims(kOp, "table", table, 2);
  const int64_t tokens = x.dim(0), width = x.dim(1);
  check_tensor(kOp, "x", x, x.dtype, {tokens, width});
  check_tensor(kOp, "table", table, x.dtype, {table.dim(0), width});
  check_tensor(kOp, "y", y, x.dtype, {tokens, width});
  check_positions(kOp, table, rows, first_token);
  bodies_of(ctx).add_positions(ctx, x, table, y, rows, first_token);
}

void positions_dw(Context& ctx, const Tensor& dy, Tensor& dtable, const SequenceRows& rows,
                  int64_t first_token, bool accumulate) {
  constexpr const char* kOp = "positions_dw";
  check_dims(kOp, "dy", dy, 2);
  check_dims(kOp, "dtable", dtable, 2);
  const int64_t tokens = dy.dim(0), width = dy.dim(1);
  check_tensor(kOp, "dy", dy, dy.dtype, {tokens, width});
  check_tensor(kOp, "dtable", dtable, gradient_type(dy.dtype, dtable), {dtable.dim(0), width});
  check_positions(kOp, dtable, rows, first_token);
  if (!accumulate) bodies_of(ctx).fill_zero(ctx, dtable);  // bodies add
  bodies_of(ctx).positions_dw(ctx, dy, dtable, rows, first_token, accumulate);
}

}  // namespace tessera::kernels
