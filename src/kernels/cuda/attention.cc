// Which kernels compute attention: those of our own serve everything.
#include "kernels/cuda/attention_own.h"
#include "kernels/cuda/bodies.h"

namespace tessera::kernels::cuda {

void attention(Context& ctx, const Tensor& q, const Tensor& kv, Tensor& o, Tensor& lse,
               const AttentionShape& shape) {
  own_attention(ctx, q, kv, {}, {}, o, lse, shape);
}

void attention_grad(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                    const Tensor& lse, const Tensor& d_o, Tensor& dq, Tensor& dkv,
                    const AttentionShape& shape) {
  own_attention_grad(ctx, q, kv, o, lse, d_o, {}, dq, dkv, shape);
}

void attention_part(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o_before,
                    const Tensor& lse_before, Tensor& o, Tensor& lse, const AttentionShape& shape) {
  own_attention(ctx, q, kv, o_before, lse_before, o, lse, shape);
}

void attention_grad_part(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                         const Tensor& lse, const Tensor& d_o, const Tensor& dq_before, Tensor& dq,
                         Tensor& dkv, const AttentionShape& shape) {
  own_attention_grad(ctx, q, kv, o, lse, d_o, dq_before, dq, dkv, shape);
}

}  // namespace tessera::kernels::cuda
