// Linear layers, by cuBLASLt.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/libraries/matmul.h"

namespace tessera::kernels::cuda {

void linear(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y) {
  const Product product{.type = x.dtype,
                        .out = y.dtype,
                        .m = x.dim(0),
                        .n = w.dim(0),
                        .k = x.dim(1),
                        .transpose_b = true};
  ctx.gpu->matmul().run(product, {x.data, w.data, y.data}, ctx.workspace);
}

void linear_dx(Context& ctx, const Tensor& dy, const Tensor& w, Tensor& dx, bool accumulate) {
  const Product product{.type = dy.dtype,
                        .out = dx.dtype,
                        .m = dy.dim(0),
                        .n = w.dim(1),
                        .k = dy.dim(1),
                        .accumulate = accumulate};
  ctx.gpu->matmul().run(product, {dy.data, w.data, dx.data}, ctx.workspace);
}

void linear_dw(Context& ctx, const Tensor& dy, const Tensor& x, Tensor& dw, bool accumulate) {
  const Product product{.type = dy.dtype,
                        .out = dw.dtype,
                        .m = dy.dim(1),
                        .n = x.dim(1),
                        .k = dy.dim(0),
                        .transpose_a = true,
                        .accumulate = accumulate};
  ctx.gpu->matmul().run(product, {dy.data, x.data, dw.data}, ctx.workspace);
}

}  // namespace tessera::kernels::cuda
