#include "kernels/attention.h"

#include "kernels/bodies.h"
#include "kernels/check.h"

namespace tessera::kernels {
namespace {

// Throws InternalError unless the tensors fit the shape and every query head has its kv head.
void check_attention(const char* op, const Tensor& q, const Tensor& kv, const Tensor& lse,
                     const AttentionShape& shape) {
  TESSERA_CHECK(shape.seq_len > 0 && shape.heads > 0 && shape.kv_heads > 0 && shape.head_dim > 0 &&
                    shape.heads_per_kv > 0 && shape.first_head >= 0 && shape.first_kv_head >= 0,
                "{}: sequence of {}, {} heads, {} kv heads of {}, {} heads per kv head", op,
                shape.seq_len, shape.heads, shape.kv_heads, shape.head_dim, shape.heads_per_kv);
  TESSERA_CHECK(shape.parts > 0 && shape.q_part < shape.parts && shape.kv_part < shape.parts &&
                    shape.seq_len % (shape.parts * shape.q_rows().chunks_per_part()) == 0,
                "{}: sequence of {} in {} parts, queries of part {}, keys of part {}", op,
                shape.seq_len, shape.parts, shape.q_part, shape.kv_part);
  check_dims(op, "q", q, 2);
  const int64_t tokens = q.dim(0), length = shape.q_rows().length();
  TESSERA_CHECK(tokens % length == 0, "{}: {} tokens in sequences of {}", op, tokens, length);
  check_tensor(op, "q", q, q.dtype, {tokens, shape.heads * shape.head_dim});
  check_tensor(op, "kv", kv, q.dtype,
               {tokens / length * shape.kv_rows().length(), 2 * shape.kv_heads * shape.head_dim});
  check_tensor(op, "lse", lse, accumulate_type(q.dtype), {tokens, shape.heads});
  const int64_t first = shape.first_head / shape.heads_per_kv - shape.first_kv_head;
  const int64_t last =
      (shape.first_head + shape.heads - 1) / shape.heads_per_kv - shape.first_kv_head;
  TESSERA_CHECK(first >= 0 && last < shape.kv_heads,
                "{}: query heads need kv heads {} to {} of {} local ones", op, first, last,
                shape.kv_heads);
}

void check_gradients(const char* op, const Tensor& q, const Tensor& kv, const Tensor& o,
                     const Tensor& lse, const Tensor& d_o, const AttentionShape& shape) {
  check_attention(op, q, kv, lse, shape);
  check_tensor(op, "o", o, q.dtype, {q.dim(0), q.dim(1)});
  check_tensor(op, "d_o", d_o, q.dtype, {q.dim(0), q.dim(1)});
}

}  // namespace

void rope(Context& ctx, const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& y,
          int64_t num_heads, bool inverse) {
  constexpr const char* kOp = "rope";
  check_dims(kOp, "x", x, 2);
  check_dims(kOp, "cos", cos, 2);
  const int64_t tokens = x.dim(0), width = x.dim(1), seq_len = cos.dim(0), half = cos.dim(1);
  const int64_t rotated = num_heads * 2 * half;
  check_tensor(kOp, "x", x, x.dtype, {tokens, width});
  check_tensor(kOp, "cos", cos, accumulate_type(x.dtype), {seq_len, half});
  check_tensor(kOp, "sin", sin, accumulate_type(x.dtype), {seq_len, half});
  check_tensor(kOp, "y", y, x.dtype, {tokens, width});
  TESSERA_CHECK(num_heads >= 0 && rotated <= width, "rope: {} heads of {} columns in a row of {}",
                num_heads, 2 * half, width);
  TESSERA_CHECK(seq_len > 0 || tokens == 0, "rope: no positions");
  bodies_of(ctx).rope(ctx, x, cos, sin, y, num_heads, inverse);
}

void attention(Context& ctx, const Tensor& q, const Tensor& kv, Tensor& o, Tensor& lse,
               const AttentionShape& shape) {
  constexpr const char* kOp = "attention";
  check_attention(kOp, q, kv, lse, shape);
  check_tensor(kOp, "o", o, q.dtype, {q.dim(0), q.dim(1)});
  if (shape.dropout.on()) check_params(kOp, ctx.params);
  bodies_of(ctx).attention(ctx, q, kv, o, lse, shape);
}

void attention_part(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o_before,
                    const Tensor& lse_before, Tensor& o, Tensor& lse, const AttentionShape& shape) {
  constexpr const char* kOp = "attention_part";
  const DType wide = accumulate_type(q.dtype);
  check_attention(kOp, q, kv, lse, shape);
  check_tensor(kOp, "o", o, wide, {q.dim(0), q.dim(1)});
  if (o_before.data != nullptr) {
    check_tensor(kOp, "o_before", o_before, wide, {q.dim(0), q.dim(1)});
    check_tensor(kOp, "lse_before", lse_before, wide, {lse.dim(0), lse.dim(1)});
  }
  if (shape.dropout.on()) check_params(kOp, ctx.params);
  bodies_of(ctx).attention_part(ctx, q, kv, o_before, lse_before, o, lse, shape);
}

void attention_grad(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                    const Tensor& lse, const Tensor& d_o, Tensor& dq, Tensor& dkv,
                    const AttentionShape& shape) {
  constexpr const char* kOp = "attention_grad";
  check_gradients(kOp, q, kv, o, lse, d_o, shape);
  check_tensor(kOp, "dq", dq, q.dtype, {q.dim(0), q.dim(1)});
  check_tensor(kOp, "dkv", dkv, q.dtype, {kv.dim(0), kv.dim(1)});
  if (shape.dropout.on()) check_params(kOp, ctx.params);
  bodies_of(ctx).attention_grad(ctx, q, kv, o, lse, d_o, dq, dkv, shape);
}

void attention_grad_part(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                         const Tensor& lse, const Tensor& d_o, const Tensor& dq_before, Tensor& dq,
                         Tensor& dkv, const AttentionShape& shape) {
  constexpr const char* kOp = "attention_grad_part";
  const DType wide = accumulate_type(q.dtype);
  check_gradients(kOp, q, kv, o, lse, d_o, shape);
  check_tensor(kOp, "dq", dq, wide, {q.dim(0), q.dim(1)});
  check_tensor(kOp, "dkv", dkv, wide, {kv.dim(0), kv.dim(1)});
  if (dq_before.data != nullptr)
    check_tensor(kOp, "dq_before", dq_before, wide, {q.dim(0), q.dim(1)});
  if (shape.dropout.on()) check_params(kOp, ctx.params);
  bodies_of(ctx).attention_grad_part(ctx, q, kv, o, lse, d_o, dq_before, dq, dkv, shape);
}

}  // namespace tessera::kernels
