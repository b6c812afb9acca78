// Causal attention, forward. One work item is one kv head of one sequence with all its query
// heads; items are dealt to the members in turn. Keys are packed in order of position, so that what
// a query sees is one range of them.
#include <cmath>
#include <limits>

#include "base/workspace.h"
#include "kernels/cpu/attention/attention_common.h"
#include "kernels/cpu/attention/attention_tiles.h"
#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/exponentials/rows.h"
#include "kernels/cpu/gemm.h"
#include "kernels/scratch.h"

namespace tessera::kernels::cpu {
namespace {

// One member's scratch. K is the number of keys that a sequence has here.
template <typename A>
struct Buffers {
  A* keys;     // [D, K]: transposed, so that the score product reads both sides by rows
  A* values;   // [K, D]
  A* queries;  // [R, D], scaled
  A* scores;   // [R, K]
  A* out;      // [R, D]
  A* sums;     // [R]

  Buffers(Scratch& scratch, const AttentionShape& shape) {
    const int64_t rows = workspace::kQueryRows, length = shape.kv_rows().length();
    keys = scratch.take<A>(length * shape.head_dim);
    values = scratch.take<A>(length * shape.head_dim);
    queries = scratch.take<A>(rows * shape.head_dim);
    scores = scratch.take<A>(rows * length);
    out = scratch.take<A>(rows * shape.head_dim);
    sums = scratch.take<A>(rows);
  }
};

// The tensors of one call: T is the storage type, O the type of o.
template <typename T, typename O>
struct Tensors {
  const T* q;
  const T* kv;
  const Acc<T>* o_before;  // null: there are no other keys
  const Acc<T>* lse_before;
  O* o;
  Acc<T>* lse;
};

// scores of visible keys become exp(score - max), the others up to `keys` zero. Returns the sum.
template <typename A>
A softmax_row(A* scores, const KeyRange& visible, int64_t keys, A* lse) {
  A* seen = scores + visible.begin;
  const int64_t count = visible.size();
  const A max = largest(seen, count);
  const A sum = soften(seen, count, max);
  std::fill(scores, seen, A{0});
  std::fill(scores + visible.end, scores + keys, A{0});
  *lse = max + std::log(sum);  // -inf when nothing is visible
  return sum;
}

// How much two softmax results weigh in the one over both sets of keys.
template <typename A>
struct Merged {
  A before, here, lse;
};
template <typename A>
Merged<A> merge(A lse_before, A lse_here) {
  const A top = std::max(lse_before, lse_here);
  if (!(top > -std::numeric_limits<A>::infinity())) return {A{0}, A{0}, top};
  const A lse = top + std::log(std::exp(lse_before - top) + std::exp(lse_here - top));
  return {std::exp(lse_before - lse), std::exp(lse_here - lse), lse};
}

// Row r of the block: out of the sums of weighted values, and what is known of other keys.
template <typename T, typename O>
void finish_row(const AttentionShape& shape, const Buffers<Acc<T>>& buf, const Tensors<T, O>& x,
                int64_t at, int64_t r, Acc<T> lse_here) {
  using A = Acc<T>;
  const int64_t dim = shape.head_dim;
  const A* out = buf.out + r * dim;
  const A inverse = buf.sums[r] > A{0} ? A{1} / buf.sums[r] : A{0};
  if (x.o_before == nullptr) {
    for (int64_t d = 0; d < dim; ++d) x.o[at * dim + d] = narrow<O>(out[d] * inverse);
    x.lse[at] = lse_here;
    return;
  }
  const Merged<A> m = merge(x.lse_before[at], lse_here);
  const A here = m.here * inverse;
  for (int64_t d = 0; d < dim; ++d) {
    x.o[at * dim + d] = narrow<O>(m.before * x.o_before[at * dim + d] + here * out[d]);
  }
  x.lse[at] = m.lse;
}

template <typename T, typename O>
void attend_block(const AttentionShape& shape, const Buffers<Acc<T>>& buf, const Tensors<T, O>& x,
                  const QueryBlock& block) {
  using A = Acc<T>;
  const int64_t dim = shape.head_dim, ld = shape.heads * dim, keys = block.keys.size();
  const int64_t length = shape.kv_rows().length();
  const A factor = A{1} / std::sqrt(static_cast<A>(dim));
  for (int64_t h = 0; h < block.heads; ++h) {
    pack_rows(x.q + block.at(shape, h) * dim, ld, block.queries, dim, factor,
              buf.queries + h * block.queries * dim);
  }
  gemm<A>(false, false, block.rows(), keys, dim, A{1}, buf.queries, dim,
          buf.keys + block.keys.begin, length, A{0}, buf.scores, keys);
  const auto at = [&](int64_t r) {
    return block.at(shape, r / block.queries) + r % block.queries * shape.heads;
  };
  A block_lse[workspace::kQueryRows];
  for (int64_t r = 0; r < block.rows(); ++r) {
    const KeyRange visible = block.visible(shape, r % block.queries);
    A* scores = buf.scores + r * keys;
    buf.sums[r] = softmax_row(scores, visible, keys, block_lse + r);
    if (!shape.dropout.on()) continue;
    for_each_dropped<A>(shape, block, r, visible,
                        [&](int64_t key, int64_t count, const A* factors) {
                          for (int64_t i = 0; i < count; ++i) scores[key + i] *= factors[i];
                        });
  }
  gemm<A>(false, false, block.rows(), dim, keys, A{1}, buf.scores, keys,
          buf.values + block.keys.begin * dim, dim, A{0}, buf.out, dim);
  for (int64_t r = 0; r < block.rows(); ++r) finish_row(shape, buf, x, at(r), r, block_lse[r]);
}

// A block that sees no key of this call.
template <typename T, typename O>
void pass_block(const AttentionShape& shape, const Tensors<T, O>& x, const QueryBlock& block) {
  const int64_t dim = shape.head_dim;
  for (int64_t r = 0; r < block.rows(); ++r) {
    const int64_t at = block.at(shape, r / block.queries) + r % block.queries * shape.heads;
    for (int64_t d = at * dim; d < (at + 1) * dim; ++d) {
      x.o[d] = x.o_before == nullptr ? O{} : narrow<O>(x.o_before[d]);
    }
    x.lse[at] = x.o_before == nullptr ? -std::numeric_limits<Acc<T>>::infinity() : x.lse_before[at];
  }
}

template <typename T, typename O>
void attend(const AttentionShape& shape, const Buffers<Acc<T>>& buf, const Tensors<T, O>& x,
            const WorkItem& item) {
  const int64_t dim = shape.head_dim, kv_width = 2 * shape.kv_heads * dim;
  const HeadRange heads = query_heads(shape, item.kv_head);
  if (heads.begin == heads.end) return;
  const int64_t length = shape.kv_rows().length();
  for_each_key_run(shape, item, [&](int64_t key, int64_t row, int64_t count) {
    const T* keys = x.kv + row * kv_width + item.kv_head * dim;
    pack_transposed(keys, kv_width, count, dim, buf.keys + key, length);
    pack_rows(keys + shape.kv_heads * dim, kv_width, count, dim, Acc<T>{1}, buf.values + key * dim);
  });
  for_each_block(shape, item, [&](const QueryBlock& block) {
    if (block.keys.size() > 0) {
      attend_block(shape, buf, x, block);
    } else {
      pass_block(shape, x, block);
    }
  });
}

template <typename T, typename O>
void attend_all(const char* op, Context& ctx, const Tensors<T, O>& x, int64_t num_sequences,
                DType dtype, const AttentionShape& shape) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const TiledAttention<O> tiled{x.q, x.kv, x.o_before, x.lse_before, x.o, x.lse};
    if (attend_on_tiles(op, ctx, tiled, num_sequences, shape)) return;
  }
  use_one_blas_thread();
  const int64_t per_member =
      workspace::attention(dtype, shape.kv_rows().length(), shape.head_dim, 1);
  for_each_item<Buffers<Acc<T>>>(
      op, ctx, per_member, shape, num_sequences,
      [&](const Buffers<Acc<T>>& buf, const WorkItem& item) { attend(shape, buf, x, item); });
}

}  // namespace

void attention(Context& ctx, const Tensor& q, const Tensor& kv, Tensor& o, Tensor& lse,
               const AttentionShape& where) {
  constexpr const char* kOp = "attention";
  const AttentionShape shape = with_key(where, ctx.params);
  dispatch(kOp, q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Tensors<T, T> x{q.as<T>(), kv.as<T>(), nullptr, nullptr, o.as<T>(), lse.as<Acc<T>>()};
    attend_all(kOp, ctx, x, q.dim(0) / shape.q_rows().length(), q.dtype, shape);
  });
}

void attention_part(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o_before,
                    const Tensor& lse_before, Tensor& o, Tensor& lse, const AttentionShape& where) {
  constexpr const char* kOp = "attention_part";
  const bool merges = o_before.data != nullptr;
  const AttentionShape shape = with_key(where, ctx.params);
  dispatch(kOp, q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    const Tensors<T, A> x{q.as<T>(),
                          kv.as<T>(),
                          merges ? o_before.as<A>() : nullptr,
                          merges ? lse_before.as<A>() : nullptr,
                          o.as<A>(),
                          lse.as<A>()};
    attend_all(kOp, ctx, x, q.dim(0) / shape.q_rows().length(), q.dtype, shape);
  });
}

}  // namespace tessera::kernels::cpu
