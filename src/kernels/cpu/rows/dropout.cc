#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"

namespace tessera::kernels::cpu {

void dropout(Context& ctx, const Tensor& x, Tensor& y, const DropoutMask& where,
             const SequenceRows& rows, int64_t first_token) {
  const int64_t tokens = x.dim(0), width = x.dim(1);
  const DropoutMask mask = with_key(where, ctx.params);
  dispatch("dropout", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    ctx.workers.parallel_for(tokens, 8, [&](int64_t row_begin, int64_t row_end) {
      for (int64_t t = row_begin; t < row_end; ++t) {
        const int64_t token = first_token + t;
        const T* in = x.as<T>() + t * width;
        T* out = y.as<T>() + t * width;
        const DropoutRow row{token / rows.length(), rows.position(token % rows.length()), 0};
        for_each_dropout_piece<A>(mask, row, 0, width,
                                  [&](int64_t begin, int64_t count, const A* factors) {
                                    for (int64_t i = 0; i < count; ++i) {
                                      out[begin + i] = narrow<T>(widen(in[begin + i]) * factors[i]);
                                    }
                                  });
      }
    });
  });
}

}  // namespace tessera::kernels::cpu
