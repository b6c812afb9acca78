#include <algorithm>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/independent.h"

namespace tessera::kernels::cpu {
namespace {

// One row: `num_heads` heads of 2 * half columns, turned by the angles of one position. x may be y.
template <typename T>
void rotate_row(const T* x, const Acc<T>* cos, const Acc<T>* sin, Acc<T> direction, T* y,
                int64_t num_heads, int64_t half) {
  using A = Acc<T>;
  for (int64_t head = 0; head < num_heads; ++head) {
    const T* in = x + head * 2 * half;
    T* out = y + head * 2 * half;
    // Each iteration reads and writes the same two columns, so x == y needs no care.
    TESSERA_INDEPENDENT
    for (int64_t d = 0; d < half; ++d) {
      const A first = widen(in[d]);
      const A second = widen(in[d + half]);
      const A turn = direction * sin[d];
      out[d] = narrow<T>(first * cos[d] - second * turn);
      out[d + half] = narrow<T>(second * cos[d] + first * turn);
    }
  }
}

}  // namespace

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
