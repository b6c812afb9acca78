#include <algorithm>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/table_sums.h"

namespace tessera::kernels::cpu {

void embedding(Context& ctx, const Tensor& ids, const Tensor& table, Tensor& y, int64_t first_row) {
  const int64_t tokens = ids.numel(), rows = table.dim(0), width = table.dim(1);
  dispatch("embedding", y.dtype, [&](auto tag) {
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
                  int64_t first_row, bool /*accumulate*/) {
  constexpr const char* kOp = "embedding_dw";
  const int64_t rows = dtable.dim(0);
  dispatch(kOp, dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto row_of = [&](int64_t t) {
      const int64_t row = ids.as<int32_t>()[t] - first_row;
      return row < rows ? row : -1;
    };
    add_to_table<T>(kOp, ctx, dy, row_of, dtable);
  });
}

}  // namespace tessera::kernels::cpu
