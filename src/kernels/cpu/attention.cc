// Causal attention, forward. One work item is one kv head of one sequence with all its query
// heads; items are dealt to the members in turn.
#include <cmath>

#include "kernels/cpu/attention_common.h"
#include "kernels/cpu/gemm.h"

namespace tessera::kernels {
namespace cpu {

void check_attention(const char* op, const Tensor& q, const Tensor& kv, const Tensor& lse,
                     const AttentionShape& shape) {
  TESSERA_CHECK(shape.seq_len > 0 && shape.heads > 0 && shape.kv_heads > 0 && shape.head_dim > 0 &&
                    shape.heads_per_kv > 0 && shape.first_head >= 0 && shape.first_kv_head >= 0,
                "{}: sequence of {}, {} heads, {} kv heads of {}, {} heads per kv head", op,
                shape.seq_len, shape.heads, shape.kv_heads, shape.head_dim, shape.heads_per_kv);
  check_dims(op, "q", q, 2);
  const int64_t tokens = q.dim(0);
  TESSERA_CHECK(tokens % shape.seq_len == 0, "{}: {} tokens in sequences of {}", op, tokens,
                shape.seq_len);
  check_tensor(op, "q", q, q.dtype, {tokens, shape.heads * shape.head_dim});
  check_tensor(op, "kv", kv, q.dtype, {tokens, 2 * shape.kv_heads * shape.head_dim});
  check_tensor(op, "lse", lse, accumulate_type(q.dtype), {tokens, shape.heads});
  const int64_t first = shape.first_head / shape.heads_per_kv - shape.first_kv_head;
  const int64_t last =
      (shape.first_head + shape.heads - 1) / shape.heads_per_kv - shape.first_kv_head;
  TESSERA_CHECK(first >= 0 && last < shape.kv_heads,
                "{}: query heads need kv heads {} to {} of {} local ones", op, first, last,
                shape.kv_heads);
}

}  // namespace cpu

namespace {

using cpu::Acc;

// One member's scratch.
template <typename A>
struct Buffers {
  A* keys;     // [D, S]: transposed, so that the score product reads both sides by rows
  A* values;   // [S, D]
  A* queries;  // [R, D], scaled
  A* scores;   // [R, S]
  A* out;      // [R, D]
  A* sums;     // [R]

  Buffers(cpu::Scratch& scratch, const AttentionShape& shape) {
    const int64_t rows = workspace::kQueryRows;
    keys = scratch.take<A>(shape.seq_len * shape.head_dim);
    values = scratch.take<A>(shape.seq_len * shape.head_dim);
    queries = scratch.take<A>(rows * shape.head_dim);
    scores = scratch.take<A>(rows * shape.seq_len);
    out = scratch.take<A>(rows * shape.head_dim);
    sums = scratch.take<A>(rows);
  }
};

// scores[0, visible) becomes exp(score - max), the rest up to `keys` zero. Returns the sum.
template <typename A>
A softmax_row(A* scores, int64_t visible, int64_t keys, A* lse) {
  const A max = cpu::lane_max<A>(visible, [&](int64_t i) { return scores[i]; });
  const A sum = cpu::lane_sum<A>(
      visible, [&](int64_t i) { return scores[i] = cpu::fast_exp(scores[i] - max); });
  std::fill(scores + visible, scores + keys, A{0});
  *lse = max + std::log(sum);
  return sum;
}

template <typename T>
void attend_block(const AttentionShape& shape, const Buffers<Acc<T>>& buf,
                  const cpu::QueryBlock& block, int64_t sequence, const T* q, T* o, Acc<T>* lse) {
  using A = Acc<T>;
  const int64_t dim = shape.head_dim, ld = shape.heads * dim, keys = block.keys();
  const A factor = A{1} / std::sqrt(static_cast<A>(dim));
  for (int64_t h = 0; h < block.heads; ++h) {
    cpu::pack_rows(q + block.at(shape, sequence, h) * dim, ld, block.queries, dim, factor,
                   buf.queries + h * block.queries * dim);
  }
  cpu::gemm<A>(false, false, block.rows(), keys, dim, A{1}, buf.queries, dim, buf.keys,
               shape.seq_len, A{0}, buf.scores, keys);
  for (int64_t r = 0; r < block.rows(); ++r) {
    const int64_t query = r % block.queries;
    const int64_t at = block.at(shape, sequence, r / block.queries) + query * shape.heads;
    buf.sums[r] = softmax_row(buf.scores + r * keys, block.first_query + query + 1, keys, lse + at);
  }
  cpu::gemm<A>(false, false, block.rows(), dim, keys, A{1}, buf.scores, keys, buf.values, dim, A{0},
               buf.out, dim);
  for (int64_t r = 0; r < block.rows(); ++r) {
    T* out = o + (block.at(shape, sequence, r / block.queries) * dim) + r % block.queries * ld;
    const A inverse = A{1} / buf.sums[r];
    for (int64_t d = 0; d < dim; ++d) out[d] = cpu::narrow<T>(buf.out[r * dim + d] * inverse);
  }
}

template <typename T>
void attend(const AttentionShape& shape, const Buffers<Acc<T>>& buf, int64_t sequence,
            int64_t kv_head, const T* q, const T* kv, T* o, Acc<T>* lse) {
  const int64_t dim = shape.head_dim, kv_width = 2 * shape.kv_heads * dim;
  const cpu::HeadRange heads = cpu::query_heads(shape, kv_head);
  if (heads.begin == heads.end) return;
  const int64_t first = sequence * shape.seq_len;
  const T* keys = kv + first * kv_width + kv_head * dim;
  cpu::pack_transposed(keys, kv_width, shape.seq_len, dim, buf.keys);
  cpu::pack_rows(keys + shape.kv_heads * dim, kv_width, shape.seq_len, dim, Acc<T>{1}, buf.values);
  cpu::for_each_block(shape, heads, [&](const cpu::QueryBlock& block) {
    attend_block(shape, buf, block, sequence, q, o, lse);
  });
}

}  // namespace

void attention(Context& ctx, const Tensor& q, const Tensor& kv, Tensor& o, Tensor& lse,
               const AttentionShape& shape) {
  constexpr const char* kOp = "attention";
  cpu::check_attention(kOp, q, kv, lse, shape);
  cpu::check_tensor(kOp, "o", o, q.dtype, {q.dim(0), q.dim(1)});
  cpu::use_one_blas_thread();
  const int size = ctx.workers.size();
  const int64_t per_member = workspace::attention(q.dtype, shape.seq_len, shape.head_dim, 1);
  const cpu::Scratch whole(kOp, ctx.workspace, per_member * size);
  const int64_t items = q.dim(0) / shape.seq_len * shape.kv_heads;
  cpu::dispatch(kOp, q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.run([&](int member) {
      cpu::Scratch scratch(kOp, cpu::member_part(ctx.workspace, per_member, member), per_member);
      const Buffers<Acc<T>> buf(scratch, shape);
      for (int64_t item = member; item < items; item += size) {
        attend(shape, buf, item / shape.kv_heads, item % shape.kv_heads, q.as<T>(), kv.as<T>(),
               o.as<T>(), lse.as<Acc<T>>());
      }
    });
  });
}

}  // namespace tessera::kernels
