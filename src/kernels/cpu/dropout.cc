#include "kernels/cpu/check.h"
#include "kernels/kernels.h"
#include "kernels/on_cuda.h"

namespace tessera::kernels {

void dropout(Context& ctx, const Tensor& x, Tensor& y, const DropoutMask& where,
             const SequenceRows& rows, int64_t first_token) {
  constexpr const char* kOp = "dropout";
  cpu::check_dims(kOp, "x", x, 2);
  const int64_t tokens = x.dim(0), width = x.dim(1);
  cpu::check_tensor(kOp, "x", x, x.dtype, {tokens, width});
  cpu::check_tensor(kOp, "y", y, x.dtype, {tokens, width});
  TESSERA_CHECK(where.rate >= 0 && where.rate < 1, "{}: rate {}", kOp, where.rate);
  TESSERA_CHECK(rows.length() > 0 && first_token >= 0, "{}: sequences of {} from token {}", kOp,
                rows.length(), first_token);
  if (where.on()) cpu::check_params(kOp, ctx.params);
  TESSERA_ON_CUDA(dropout(ctx, x, y, where, rows, first_token));
  const DropoutMask mask = with_key(where, ctx.params);
  cpu::dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = cpu::Acc<T>;
    ctx.workers.parallel_for(tokens, 8, [&](int64_t row_begin, int64_t row_end) {
      for (int64_t t = row_begin; t < row_end; ++t) {
        const int64_t token = first_token + t;
        const T* in = x.as<T>() + t * width;
        T* out = y.as<T>() + t * width;
        const DropoutRow row{token / rows.length(), rows.position(token % rows.length()), 0};
        for_each_dropout_piece<A>(
            mask, row, 0, width, [&](int64_t begin, int64_t count, const A* factors) {
              for (int64_t i = 0; i < count; ++i) {
                out[begin + i] = cpu::narrow<T>(cpu::widen(in[begin + i]) * factors[i]);
              }
            });
      }
    });
  });
}

}  // namespace tessera::kernels
