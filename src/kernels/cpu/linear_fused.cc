// On the CPU what follows a product is a kernel of its own: the arithmetic is the same.
#include "kernels/kernels.h"
#include "kernels/on_cuda.h"

namespace tessera::kernels {

void linear_bias(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, Tensor& z,
                 Tensor& h) {
  TESSERA_ON_CUDA(linear_bias(ctx, x, w, b, z, h));
  linear(ctx, x, w, z);
  add_bias(ctx, z, b, z);
  if (h.data != nullptr) gelu(ctx, z, h);
}

void linear_dx_gelu(Context& ctx, const Tensor& dy, const Tensor& w, const Tensor& z, Tensor& dz) {
  TESSERA_ON_CUDA(linear_dx_gelu(ctx, dy, w, z, dz));
  linear_dx(ctx, dy, w, dz, /*accumulate=*/false);
  gelu_grad(ctx, dz, z, dz);
}

void linear_dw_bias(Context& ctx, const Tensor& dy, const Tensor& x, Tensor& dw, Tensor& db,
                    bool accumulate) {
  TESSERA_ON_CUDA(linear_dw_bias(ctx, dy, x, dw, db, accumulate));
  linear_dw(ctx, dy, x, dw, accumulate);
  bias_dw(ctx, dy, db, accumulate);
}

}  // namespace tessera::kernels
