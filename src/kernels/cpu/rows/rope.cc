#include <algorithm>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/rotate.h"

namespace tessera::kernels::cpu {

void rope(Context& ctx, const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& y,
          int64_t num_heads, bool inverse) {
  const int64_t tokens = x.dim(0), width = x.dim(1), seq_len = cos.dim(0), half = cos.dim(1);
  const int64_t rotated = num_heads * 2 * half;
  dispatch("rope", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    ctx.workers.parallel_for(tokens, 16, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const T* in = x.as<T>() + t * width;
        T* out = y.as<T>() + t * width;
        const int64_t angle = t % seq_len * half;
        rotate_row(in, cos.as<A>() + angle, sin.as<A>() + angle, inverse ? A{-1} : A{1}, out,
                   num_heads, half);
        if (in != out) std::copy(in + rotated, in + width, out + rotated);
      }
    });
  });
}

}  // namespace tessera::kernels::cpu
