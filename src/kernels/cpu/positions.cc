#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/independent.h"
#include "kernels/cpu/table_sums.h"

namespace tessera::kernels::cpu {

void add_positions(Context& ctx, const Tensor& x, const Tensor& table, Tensor& y,
                   const SequenceRows& rows, int64_t first_token) {
  const int64_t tokens = x.dim(0), width = x.dim(1);
  dispatch("add_positions", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, 16, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const T* in = x.as<T>() + t * width;
        const T* row = table.as<T>() + rows.position((first_token + t) % rows.length()) * width;
        T* out = y.as<T>() + t * width;
        // y may be x
        TESSERA_INDEPENDENT
        for (int64_t i = 0; i < width; ++i) {
          out[i] = narrow<T>(widen(in[i]) + widen(row[i]));
        }
      }
    });
  });
}

void positions_dw(Context& ctx, const Tensor& dy, Tensor& dtable, const SequenceRows& rows,
                  int64_t first_token, bool /*accumulate*/) {
  constexpr const char* kOp = "positions_dw";
  dispatch(kOp, dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto row_of = [&](int64_t t) { return rows.position((first_token + t) % rows.length()); };
    add_to_table<T>(kOp, ctx, dy, row_of, dtable);
  });
}

}  // namespace tessera::kernels::cpu
