// Causal attention of bf16 on tiles. All products are of bf16 operands: queries, keys, values and
// what comes from above as they are stored, probabilities and their gradients rounded. Sums, maxima
// and exponentials are in f32, and the scale of the scores is applied there.
#pragma once

#include "kernels/attention.h"

namespace tessera::kernels::cpu {

// The tensors of a call, as in attention.cc; O is the type of o.
template <typename O>
struct TiledAttention {
  const BFloat16* q;
  const BFloat16* kv;
  const float* o_before;  // null: there are no other keys
  const float* lse_before;
  O* o;
  float* lse;
};

// And as in attention_grad.cc; O is the type of dq and dkv.
template <typename O>
struct TiledAttentionGrad {
  const BFloat16* q;
  const BFloat16* kv;
  const BFloat16* o;
  const float* lse;
  const BFloat16* d_o;
  const O* dq_before;  // null: dq starts at zero
  O* dq;
  O* dkv;
};

// False, and nothing is done, where there are no tiles, or heads or sequences are so small that
// tiles would be mostly padding: more than the workspace that is planned.
template <typename O>
bool attend_on_tiles(const char* op, Context& ctx, const TiledAttention<O>& x,
                     int64_t num_sequences, const AttentionShape& shape);
template <typename O>
bool attend_grad_on_tiles(const char* op, Context& ctx, const TiledAttentionGrad<O>& x,
                          int64_t num_sequences, const AttentionShape& shape);

}  // namespace tessera::kernels::cpu
