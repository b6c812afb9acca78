// On the CPU what follows a product is a kernel of its own: the arithmetic is the same.
#include "kernels/cpu/bodies.h"

namespace tessera::kernels::cpu {

void linear_bias(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, Tensor& z,
                 Tensor& h) {
  cpu::linear(ctx, x, w, z);
  cpu::add_bias(ctx, z, b, z);
  if (h.data != nullptr) cpu::gelu(ctx, z, h);
}

void linear_dx_gelu(Context& ctx, const Tensor& dy, const Tensor& w, const Tensor& z, Tensor& dz) {
  cpu::linear_dx(ctx, dy, w, dz, /*accumulate=*/false);
  cpu::gelu_grad(ctx, dz, z, dz);
}

void linear_dw_bias(Context& ctx, const Tensor& dy, const Tensor& x, Tensor& dw, Tensor& db,
                    bool accumulate) {
  cpu::linear_dw(ctx, dy, x, dw, accumulate);
  cpu::bias_dw(ctx, dy, db, accumulate);
}

}  // namespace tessera::kernels::cpu
