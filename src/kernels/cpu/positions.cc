#include "kernels/cpu/check.h"
#include "kernels/cpu/independent.h"
#include "kernels/cpu/table_sums.h"
#include "kernels/kernels.h"
#include "kernels/on_cuda.h"

namespace tessera::kernels {
namespace {

void check_positions(const char* op, const Tensor& table, const SequenceRows& rows,
                     int64_t first_token) {
  TESSERA_CHECK(rows.length() > 0 && rows.seq_len <= table.dim(0) && first_token >= 0,
                "{}: sequences of {} from token {} with {} positions", op, rows.seq_len,
                first_token, table.dim(0));
}

}  // namespace

void add_positions(Context& ctx, const Tensor& x, const Tensor& table, Tensor& y,
                   const SequenceRows& rows, int64_t first_token) {
  constexpr const char* kOp = "add_positions";
  cpu::check_dims(kOp, "x", x, 2);
  cpu::check_dims(kOp, "table", table, 2);
  const int64_t tokens = x.dim(0), width = x.dim(1);
  cpu::check_tensor(kOp, "x", x, x.dtype, {tokens, width});
  cpu::check_tensor(kOp, "table", table, x.dtype, {table.dim(0), width});
  cpu::check_tensor(kOp, "y", y, x.dtype, {tokens, width});
  check_positions(kOp, table, rows, first_token);
  TESSERA_ON_CUDA(add_positions(ctx, x, table, y, rows, first_token));
  cpu::dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, 16, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const T* in = x.as<T>() + t * width;
        const T* row = table.as<T>() + rows.position((first_token + t) % rows.length()) * width;
        T* out = y.as<T>() + t * width;
        // y may be x
        TESSERA_INDEPENDENT
        for (int64_t i = 0; i < width; ++i) {
          out[i] = cpu::narrow<T>(cpu::widen(in[i]) + cpu::widen(row[i]));
        }
      }
    });
  });
}

void positions_dw(Context& ctx, const Tensor& dy, Tensor& dtable, const SequenceRows& rows,
                  int64_t first_token, bool accumulate) {
  constexpr const char* kOp = "positions_dw";
  cpu::check_dims(kOp, "dy", dy, 2);
  cpu::check_dims(kOp, "dtable", dtable, 2);
  const int64_t tokens = dy.dim(0), width = dy.dim(1);
  cpu::check_tensor(kOp, "dy", dy, dy.dtype, {tokens, width});
  cpu::check_tensor(kOp, "dtable", dtable, cpu::gradient_type(dy.dtype, dtable),
                    {dtable.dim(0), width});
  check_positions(kOp, dtable, rows, first_token);
  if (!accumulate) fill_zero(ctx, dtable);
  TESSERA_ON_CUDA(positions_dw(ctx, dy, dtable, rows, first_token, accumulate));
  cpu::dispatch(kOp, dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto row_of = [&](int64_t t) { return rows.position((first_token + t) % rows.length()); };
    cpu::add_to_table<T>(kOp, ctx, dy, row_of, dtable);
  });
}

}  // namespace tessera::kernels
