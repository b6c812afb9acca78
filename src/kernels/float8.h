// Numbers of 8 bits with a scale for each tile (base/float8.h, kernels/context.h has the letters).
// Codes are u8; an amax is f32, one for each tile of its matrix: [tiles down, tiles across].
#pragma once

#include "base/float8.h"
#include "kernels/context.h"

namespace tessera::kernels {

// The largest size in each tile of x [R,C]: infinite where there is an infinity or a NaN.
void amax(Context& ctx, const Tensor& x, Tensor& amax, const Scaling& scaling);
// codes [R,C] = x in units of its scales, rounded.
void quantise(Context& ctx, const Tensor& x, const Tensor& amax, Tensor& codes,
              const Scaling& scaling);

// A matrix of codes.
struct Float8Matrix {
  Tensor codes, amax;
  Scaling scaling;
};
// linear, linear_dx and linear_dw (linear.h) of what the codes stand for: products are exact, and
// summed as the storage type of the result is.
void fp8_linear(Context& ctx, const Float8Matrix& x, const Float8Matrix& w, Tensor& y);
void fp8_linear_dx(Context& ctx, const Float8Matrix& dy, const Float8Matrix& w, Tensor& dx,
                   bool accumulate);
// `type`: of the activations, which dw does not say.
void fp8_linear_dw(Context& ctx, const Float8Matrix& dy, const Float8Matrix& x, Tensor& dw,
                   DType type, bool accumulate);

}  // namespace tessera::kernels
