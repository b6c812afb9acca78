// Which kernels compute attention: cuDNN's where they serve and are not slower, else those of our
// own, which serve everything.
#include "kernels/cuda/attention/attention_own.h"
#include "kernels/cuda/attention/cudnn_attention.h"
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/gpu.h"

namespace tessera::kernels::cuda {

void own_attention(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o_before,
                   const Tensor& lse_before, Tensor& o, Tensor& lse, const AttentionShape& shape) {
  if (q.dim(0) == 0) return;
  const bool exact = q.dtype == accumulate_type(q.dtype);
  (exact ? simt_attention : mma_attention)(ctx, q, kv, o_before, lse_before, o, lse, shape);
}

void own_attention_grad(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                        const Tensor& lse, const Tensor& d_o, const Tensor& dq_before, Tensor& dq,
                        Tensor& dkv, const AttentionShape& shape) {
  if (q.dim(0) == 0) return;
  const bool exact = q.dtype == accumulate_type(q.dtype);
  (exact ? simt_attention_grad : mma_attention_grad)(ctx, q, kv, o, lse, d_o, dq_before, dq, dkv,
                                                     shape);
}

void attention(Context& ctx, const Tensor& q, const Tensor& kv, Tensor& o, Tensor& lse,
               const AttentionShape& shape) {
  Attention* const cudnn = ctx.gpu->attention();
  if (cudnn != nullptr && cudnn->forward(ctx, q, kv, o, lse, shape)) return;
  own_attention(ctx, q, kv, {}, {}, o, lse, shape);
}

void attention_grad(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                    const Tensor& lse, const Tensor& d_o, Tensor& dq, Tensor& dkv,
                    const AttentionShape& shape) {
  Attention* const cudnn = ctx.gpu->attention();
  if (cudnn != nullptr && cudnn->backward(ctx, q, kv, o, lse, d_o, dq, dkv, shape)) {
    return;
  }
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
