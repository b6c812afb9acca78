// Serving: a flat list of tokens of any sequences (kernels/context.h has the letters and the
// rules). What a token gets has the same bits whatever other tokens are computed with it, however
// many they are, and wherever its pages lie.
#pragma once

#include "kernels/context.h"

namespace tessera::kernels {

// ---- products ----  y[T,N] = x[T,K] w[N,K]^T, the type of y that of x or the accumulate type. K
// is cut into `chunks` of equal length (the last may be shorter), summed along a binary tree
// (base/sum_chunks.h).
void serve_linear(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, int64_t chunks);
// The same for the rows of experts, as expert_linear() has them: y of the type of x.
void serve_expert_linear(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& counts,
                         Tensor& y, int64_t chunks);

// ---- positions ----  positions[T]; cos and sin [S, D/2] in the accumulate type, S more than any
// position. y may be x.
void rope_at(Context& ctx, const Tensor& x, const Tensor& positions, const Tensor& cos,
             const Tensor& sin, Tensor& y, int64_t num_heads);
// y = x + table[position]
void positions_at(Context& ctx, const Tensor& x, const Tensor& table, const Tensor& positions,
                  Tensor& y);
// y[r] = x[rows[r]], zeros where that is negative.
void take_rows(Context& ctx, const Tensor& x, const Tensor& rows, Tensor& y);

// ---- the cache ----  [pages, 2 * kv_heads * page_size * D]: a page holds keys, then values, each
// by head, token and column.
struct PageShape {
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t page_size = 0;
  // Elements from the start of a page to the keys of a head, and to its values.
  [[nodiscard]] constexpr int64_t keys_of(int64_t head) const {
    return head * page_size * head_dim;
  }
  [[nodiscard]] constexpr int64_t values_of(int64_t head) const {
    return (kv_heads + head) * page_size * head_dim;
  }
  [[nodiscard]] constexpr int64_t width() const { return 2 * kv_heads * page_size * head_dim; }
};
// kv[T, 2*kv_heads*D] goes to slots[T] = page * page_size + offset; none where that is negative.
// Keys are turned by the angles of their positions on the way, unless `cos` has no data.
void cache_write(Context& ctx, const Tensor& kv, const Tensor& positions, const Tensor& slots,
                 const Tensor& cos, const Tensor& sin, Tensor& cache, const PageShape& shape);

// ---- causal attention to the keys in pages ----
struct PagedAttentionShape {
  PageShape page;
  int64_t heads = 0;  // query heads of this rank
  // Query head h uses kv head (first_head + h) / heads_per_kv - first_kv_head.
  int64_t heads_per_kv = 1;
  int64_t first_head = 0;
  int64_t first_kv_head = 0;
  int64_t window = 0;  // as in AttentionShape
};
// q[T, heads*D] and o; first_row[N+1]: tokens [first_row[n], first_row[n+1]) are the last of
// kv_len[n] that sequence n has in its pages[N,P]. Tokens of no sequence get zeros.
void paged_attention(Context& ctx, const Tensor& q, const Tensor& cache, const Tensor& first_row,
                     const Tensor& kv_len, const Tensor& pages, Tensor& o,
                     const PagedAttentionShape& shape);

}  // namespace tessera::kernels
