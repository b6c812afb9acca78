#include <algorithm>

#include "kernels/cpu/check.h"
#include "kernels/cpu/table_sums.h"
#include "kernels/kernels.h"
#include "kernels/on_cuda.h"

namespace tessera::kernels {

void embedding(Context& ctx, const Tensor& ids, const Tensor& table, Tensor& y, int64_t first_row) {
  constexpr const char* kOp = "embedding";
  cpu::check_dims(kOp, "table", table, 2);
  const int64_t tokens = ids.numel(), rows = table.dim(0), width = table.dim(1);
  cpu::check_flat(kOp, "ids", ids, DType::kI32, tokens);
  cpu::check_tensor(kOp, "table", table, y.dtype, {rows, width});
  cpu::check_tensor(kOp, "y", y, table.dtype, {tokens, width});
  TESSERA_ON_CUDA(embedding(ctx, ids, table, y, first_row));
  cpu::dispatch(kOp, y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, 16, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t row = ids.as<int32_t>()[t] - first_row;
        T* out = y.as<T>() + t * width;
        if (row >= 0 && row < rows) {
          std::copy_n(table.as<T>() + row * width, width, out);
        } else {
          std::fill_n(out, width, T{});
        }
      }
    });
  });
}

void embedding_dw(Context& ctx, const Tensor& ids, const Tensor& dy, Tensor& dtable,
                  int64_t first_row, bool accumulate) {
  constexpr const char* kOp = "embedding_dw";
  cpu::check_dims(kOp, "dtable", dtable, 2);
  const int64_t tokens = ids.numel(), rows = dtable.dim(0), width = dtable.dim(1);
  cpu::check_flat(kOp, "ids", ids, DType::kI32, tokens);
  cpu::check_tensor(kOp, "dy", dy, dy.dtype, {tokens, width});
  cpu::check_tensor(kOp, "dtable", dtable, cpu::gradient_type(dy.dtype, dtable), {rows, width});
  if (!accumulate) fill_zero(ctx, dtable);
  TESSERA_ON_CUDA(embedding_dw(ctx, ids, dy, dtable, first_row, accumulate));
  cpu::dispatch(kOp, dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto row_of = [&](int64_t t) {
      const int64_t row = ids.as<int32_t>()[t] - first_row;
      return row < rows ? row : -1;
    };
    cpu::add_to_table<T>(kOp, ctx, dy, row_of, dtable);
  });
}

}  // namespace tessera::kernels
