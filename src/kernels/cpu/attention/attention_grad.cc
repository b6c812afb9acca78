// Causal attention, backward. Work items as in the forward pass: one kv head of one sequence, so
// its dk and dv are summed over query heads and query blocks by one member, in a fixed order.
#include <cmath>

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
  A* keys;               // [K, D]
  A* keys_transposed;    // [D, K]
  A* values_transposed;  // [D, K]
  A* d_keys;             // [K, D]
  A* d_values;           // [K, D]
  A* queries;            // [R, D], scaled
  A* d_out;              // [R, D]
  A* d_queries;          // [R, D]
  A* scores;             // [R, K]: probabilities
  A* d_scores;           // [R, K]
  A* dots;               // [R]: do . o

  Buffers(Scratch& scratch, const AttentionShape& shape) {
    const int64_t rows = workspace::kQueryRows, length = shape.kv_rows().length();
    const int64_t all = length * shape.head_dim;
    for (A** whole : {&keys, &keys_transposed, &values_transposed, &d_keys, &d_values}) {
      *whole = scratch.take<A>(all);
    }
    for (A** block : {&queries, &d_out, &d_queries})
      *block = scratch.take<A>(rows * shape.head_dim);
    for (A** block : {&scores, &d_scores}) *block = scratch.take<A>(rows * length);
    dots = scratch.take<A>(rows);
  }
};

// The tensors of one call: T is the storage type, O the type of dq and dkv.
template <typename T, typename O>
struct Tensors {
  const T* q;
  const T* kv;
  const T* o;
  const Acc<T>* lse;
  const T* d_o;
  const O* dq_before;  // null: dq starts at zero
  O* dq;
  O* dkv;
};

// soften_grad where probabilities p were dropped by factors f: scores -> p * f, dp -> p * (f * dp -
// dot).
template <typename A>
void dropped_softmax_grad_row(const AttentionShape& shape, const QueryBlock& block, int64_t r,
                              A* scores, A* d_scores, const KeyRange& visible, A lse, A dot) {
  for_each_dropped<A>(shape, block, r, visible, [&](int64_t key, int64_t count, const A* factors) {
    for (int64_t i = 0; i < count; ++i) {
      A& score = scores[key + i];
      A& d_score = d_scores[key + i];
      const A p = fast_exp(score - lse);
      score = p * factors[i];
      d_score = p * (factors[i] * d_score - dot);
    }
  });
}

// Scaled queries, d_o and their dots with o, stacked by head.
template <typename T, typename O>
void pack_block(const AttentionShape& shape, const Buffers<Acc<T>>& buf, const Tensors<T, O>& x,
                const QueryBlock& block, Acc<T> factor) {
  using A = Acc<T>;
  const int64_t dim = shape.head_dim, ld = shape.heads * dim;
  for (int64_t h = 0; h < block.heads; ++h) {
    const int64_t from = block.at(shape, h) * dim, row = h * block.queries;
    pack_rows(x.q + from, ld, block.queries, dim, factor, buf.queries + row * dim);
    pack_rows(x.d_o + from, ld, block.queries, dim, A{1}, buf.d_out + row * dim);
    for (int64_t i = 0; i < block.queries; ++i) {
      const T* out = x.o + from + i * ld;
      const A* d_out = buf.d_out + (row + i) * dim;
      buf.dots[row + i] = lane_sum<A>(dim, [&](int64_t d) { return d_out[d] * widen(out[d]); });
    }
  }
}

template <typename T, typename O>
void store_d_queries(const AttentionShape& shape, const Buffers<Acc<T>>& buf,
                     const Tensors<T, O>& x, const QueryBlock& block) {
  const int64_t dim = shape.head_dim, ld = shape.heads * dim;
  for (int64_t h = 0; h < block.heads; ++h) {
    const Acc<T>* from = buf.d_queries + h * block.queries * dim;
    const int64_t to = block.at(shape, h) * dim;
    if (x.dq_before == nullptr) {
      unpack_rows(from, block.queries, dim, x.dq + to, ld);
    } else {
      unpack_rows_onto(from, block.queries, dim, x.dq_before + to, x.dq + to, ld);
    }
  }
}

template <typename T, typename O>
void block_grad(const AttentionShape& shape, const Buffers<Acc<T>>& buf, const Tensors<T, O>& x,
                const QueryBlock& block) {
  using A = Acc<T>;
  const int64_t dim = shape.head_dim, keys = block.keys.size(), rows = block.rows();
  const int64_t first = block.keys.begin, length = shape.kv_rows().length();
  const A factor = A{1} / std::sqrt(static_cast<A>(dim));
  pack_block(shape, buf, x, block, factor);
  gemm<A>(false, false, rows, keys, dim, A{1}, buf.queries, dim, buf.keys_transposed + first,
          length, A{0}, buf.scores, keys);
  gemm<A>(false, false, rows, keys, dim, A{1}, buf.d_out, dim, buf.values_transposed + first,
          length, A{0}, buf.d_scores, keys);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t query = r % block.queries;
    const int64_t at = block.at(shape, r / block.queries) + query * shape.heads;
    const KeyRange visible = block.visible(shape, query);
    A* scores = buf.scores + r * keys;
    A* d_scores = buf.d_scores + r * keys;
    if (shape.dropout.on()) {
      dropped_softmax_grad_row(shape, block, r, scores, d_scores, visible, x.lse[at], buf.dots[r]);
    } else {
      soften_grad(scores + visible.begin, d_scores + visible.begin, visible.size(), x.lse[at],
                  buf.dots[r]);
    }
    for (A* row : {scores, d_scores}) {
      std::fill(row, row + visible.begin, A{0});
      std::fill(row + visible.end, row + keys, A{0});
    }
  }
  gemm<A>(true, false, keys, dim, rows, A{1}, buf.scores, keys, buf.d_out, dim, A{1},
          buf.d_values + first * dim, dim);
  // The queries carry the scale, the keys do not.
  gemm<A>(true, false, keys, dim, rows, A{1}, buf.d_scores, keys, buf.queries, dim, A{1},
          buf.d_keys + first * dim, dim);
  gemm<A>(false, false, rows, dim, keys, factor, buf.d_scores, keys, buf.keys + first * dim, dim,
          A{0}, buf.d_queries, dim);
  store_d_queries(shape, buf, x, block);
}

// A block that sees no key of this call.
template <typename T, typename O>
void pass_block(const AttentionShape& shape, const Buffers<Acc<T>>& buf, const Tensors<T, O>& x,
                const QueryBlock& block) {
  if (x.dq_before == x.dq) return;
  std::fill_n(buf.d_queries, block.rows() * shape.head_dim, Acc<T>{0});
  store_d_queries(shape, buf, x, block);
}

template <typename T, typename O>
void attend_grad(const AttentionShape& shape, const Buffers<Acc<T>>& buf, const Tensors<T, O>& x,
                 const WorkItem& item) {
  using A = Acc<T>;
  const int64_t dim = shape.head_dim, length = shape.kv_rows().length();
  const int64_t kv_width = 2 * shape.kv_heads * dim, values = shape.kv_heads * dim;
  for_each_key_run(shape, item, [&](int64_t key, int64_t row, int64_t count) {
    const T* keys = x.kv + row * kv_width + item.kv_head * dim;
    pack_rows(keys, kv_width, count, dim, A{1}, buf.keys + key * dim);
    pack_transposed(keys, kv_width, count, dim, buf.keys_transposed + key, length);
    pack_transposed(keys + values, kv_width, count, dim, buf.values_transposed + key, length);
  });
  std::fill_n(buf.d_keys, length * dim, A{0});
  std::fill_n(buf.d_values, length * dim, A{0});
  for_each_block(shape, item, [&](const QueryBlock& block) {
    if (block.keys.size() > 0) {
      block_grad(shape, buf, x, block);
    } else {
      pass_block(shape, buf, x, block);
    }
  });
  for_each_key_run(shape, item, [&](int64_t key, int64_t row, int64_t count) {
    O* d_keys = x.dkv + row * kv_width + item.kv_head * dim;
    unpack_rows(buf.d_keys + key * dim, count, dim, d_keys, kv_width);
    unpack_rows(buf.d_values + key * dim, count, dim, d_keys + values, kv_width);
  });
}

template <typename T, typename O>
void attend_grad_all(const char* op, Context& ctx, const Tensors<T, O>& x, int64_t num_sequences,
                     DType dtype, const AttentionShape& shape) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const TiledAttentionGrad<O> tiled{x.q, x.kv, x.o, x.lse, x.d_o, x.dq_before, x.dq, x.dkv};
    if (attend_grad_on_tiles(op, ctx, tiled, num_sequences, shape)) return;
  }
  use_one_blas_thread();
  const int64_t per_member =
      workspace::attention_grad(dtype, shape.kv_rows().length(), shape.head_dim, 1);
  for_each_item<Buffers<Acc<T>>>(
      op, ctx, per_member, shape, num_sequences,
      [&](const Buffers<Acc<T>>& buf, const WorkItem& item) { attend_grad(shape, buf, x, item); });
}

}  // namespace

void attention_grad(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                    const Tensor& lse, const Tensor& d_o, Tensor& dq, Tensor& dkv,
                    const AttentionShape& where) {
  constexpr const char* kOp = "attention_grad";
  const AttentionShape shape = with_key(where, ctx.params);
  dispatch(kOp, q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Tensors<T, T> x{q.as<T>(),   kv.as<T>(), o.as<T>(),  lse.as<Acc<T>>(),
                          d_o.as<T>(), nullptr,    dq.as<T>(), dkv.as<T>()};
    attend_grad_all(kOp, ctx, x, q.dim(0) / shape.q_rows().length(), q.dtype, shape);
  });
}

void attention_grad_part(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                         const Tensor& lse, const Tensor& d_o, const Tensor& dq_before, Tensor& dq,
                         Tensor& dkv, const AttentionShape& where) {
  constexpr const char* kOp = "attention_grad_part";
  const bool adds = dq_before.data != nullptr;
  const AttentionShape shape = with_key(where, ctx.params);
  dispatch(kOp, q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    const Tensors<T, A> x{q.as<T>(),   kv.as<T>(),  o.as<T>(),
                          lse.as<A>(), d_o.as<T>(), adds ? dq_before.as<A>() : nullptr,
                          dq.as<A>(),  dkv.as<A>()};
    attend_grad_all(kOp, ctx, x, q.dim(0) / shape.q_rows().length(), q.dtype, shape);
  });
}

}  // namespace tessera::kernels::cpu
