// Linear layers, by cuBLASLt.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/libraries/matmul.h"

namespace tessera::kernels::cuda {

namespace {

// c = a b, as `product` says, which need not say the types.
void multiply(Context& ctx, Product product, const Tensor& a, const Tensor& b, Tensor& c) {
  product.type = a.dtype;
  product.out = c.dtype;
  ctx.gpu->matmul().run(product, {a.data, b.data, c.data}, ctx.workspace);
}

}  // namespace

void linear(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y) {
  multiply(ctx, {.m = x.dim(0), .n = w.dim(0), .k = x.dim(1), .transpose_b = true}, x, w, y);
}

void linear_dx(Context& ctx, const Tensor& dy, const Tensor& w, Tensor& dx, bool accumulate) {
  multiply(ctx, {.m = dy.dim(0), .n = w.dim(1), .k = dy.dim(1), .accumulate = accumulate}, dy, w,
           dx);
}

void linear_dw(Context& ctx, const Tensor& dy, const Tensor& x, Tensor& dw, bool accumulate) {
  multiply(ctx,
           {.m = dy.dim(1),
            .n = x.dim(1),
            .k = dy.dim(0),
            .transpose_a = true,
            .accumulate = accumulate},
           dy, x, dw);
}

}  // namespace tessera::kernels::cuda
