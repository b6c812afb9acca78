// Attention, and the rotation of what goes into it.
#pragma once

#include "base/dropout.h"
#include "base/sequence_rows.h"
#include "kernels/context.h"

namespace tessera::kernels {

// ---- rotary positions ----  rotate-half: pairs (d, d + D/2) of each head.
// cos, sin: [S, D/2] in the accumulate type. x[T, W]: the first num_heads * D columns are rotated,
// the rest is copied. The position of row t is t mod S. y may be x. `inverse` rotates back.
void rope(Context& ctx, const Tensor& x, const Tensor& cos, const Tensor& sin, Tensor& y,
          int64_t num_heads, bool inverse);

// ---- causal attention ----  computed by row blocks; no S x S matrix is ever stored.
struct AttentionShape {
  int64_t seq_len = 0;   // S, of whole sequences
  int64_t heads = 0;     // query heads of this rank
  int64_t kv_heads = 0;  // key/value heads present in `kv`
  int64_t head_dim = 0;
  // Query head h uses kv head (first_head + h) / heads_per_kv - first_kv_head.
  int64_t heads_per_kv = 1;
  int64_t first_head = 0;
  int64_t first_kv_head = 0;
  int64_t window = 0;  // a query sees so many positions, its own included; 0: all up to its own
  // Sequences split over `parts` ranks: the rows of q and kv are those of one part, or of all
  // (base/sequence_rows.h). Positions decide who sees whom.
  int64_t parts = 1, q_part = 0, kv_part = 0;
  // [rows of q], or null: the first position that a query may see, where its document begins. In a
  // sequence they never fall.
  const int32_t* starts = nullptr;
  DropoutMask dropout{};  // of the probabilities, by query head, query and key

  [[nodiscard]] constexpr SequenceRows q_rows() const { return {seq_len, parts, q_part}; }
  [[nodiscard]] constexpr SequenceRows kv_rows() const { return {seq_len, parts, kv_part}; }
};
// q[T, heads*D], kv[T, 2*kv_heads*D] (all keys, then all values), o[T, heads*D],
// lse[T, heads] = log sum exp of the scaled scores, in the accumulate type. Scale 1/sqrt(D).
// A query that sees no key gets zeros and -inf.
void attention(Context& ctx, const Tensor& q, const Tensor& kv, Tensor& o, Tensor& lse,
               const AttentionShape& shape);
// dq and dkv are overwritten; kv heads that no local query head uses get zeros.
void attention_grad(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                    const Tensor& lse, const Tensor& d_o, Tensor& dq, Tensor& dkv,
                    const AttentionShape& shape);
// Attention to some of the keys: o (in the accumulate type) and lse over these keys and those of
// o_before and lse_before together, unless their data is null. They may be o and lse.
void attention_part(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o_before,
                    const Tensor& lse_before, Tensor& o, Tensor& lse, const AttentionShape& shape);
// o and lse are those over all keys; dq (plus dq_before unless its data is null; dq may be it) and
// dkv are what these keys contribute, in the accumulate type.
void attention_grad_part(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                         const Tensor& lse, const Tensor& d_o, const Tensor& dq_before, Tensor& dq,
                         Tensor& dkv, const AttentionShape& shape);

}  // namespace tessera::kernels
