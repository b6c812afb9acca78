// Causal attention, backward. Work items as in the forward pass: one kv head of one sequence, so
// its dk and dv are summed over query heads and query blocks by one member, in a fixed order.
#include <cmath>

#include "kernels/cpu/attention_common.h"
#include "kernels/cpu/gemm.h"

namespace tessera::kernels {
namespace {

using cpu::Acc;

// One member's scratch.
template <typename A>
struct Buffers {
  A* keys;               // [S, D]
  A* keys_transposed;    // [D, S]
  A* values_transposed;  // [D, S]
  A* d_keys;             // [S, D]
  A* d_values;           // [S, D]
  A* queries;            // [R, D], scaled
  A* d_out;              // [R, D]
  A* d_queries;          // [R, D]
  A* scores;             // [R, S]: probabilities
  A* d_scores;           // [R, S]
  A* dots;               // [R]: do . o

  Buffers(cpu::Scratch& scratch, const AttentionShape& shape) {
    const int64_t rows = workspace::kQueryRows;
    const int64_t all = shape.seq_len * shape.head_dim;
    for (A** whole : {&keys, &keys_transposed, &values_transposed, &d_keys, &d_values}) {
      *whole = scratch.take<A>(all);
    }
    for (A** block : {&queries, &d_out, &d_queries})
      *block = scratch.take<A>(rows * shape.head_dim);
    for (A** block : {&scores, &d_scores}) *block = scratch.take<A>(rows * shape.seq_len);
    dots = scratch.take<A>(rows);
  }
};

// The tensors of one call, in the storage type T.
template <typename T>
struct Tensors {
  const T* q;
  const T* kv;
  const T* o;
  const Acc<T>* lse;
  const T* d_o;
  T* dq;
  T* dkv;
};

// scores -> probabilities p, d_scores (dp) -> p * (dp - dot); keys beyond `visible` get zeros.
template <typename A>
void softmax_grad_row(A* scores, A* d_scores, int64_t visible, int64_t keys, A lse, A dot) {
#pragma GCC ivdep
  for (int64_t i = 0; i < visible; ++i) {
    const A p = cpu::fast_exp(scores[i] - lse);
    scores[i] = p;
    d_scores[i] = p * (d_scores[i] - dot);
  }
  std::fill(scores + visible, scores + keys, A{0});
  std::fill(d_scores + visible, d_scores + keys, A{0});
}

// Scaled queries, d_o and their dots with o, stacked by head.
template <typename T>
void pack_block(const AttentionShape& shape, const Buffers<Acc<T>>& buf, const Tensors<T>& x,
                const cpu::QueryBlock& block, int64_t sequence, Acc<T> factor) {
  using A = Acc<T>;
  const int64_t dim = shape.head_dim, ld = shape.heads * dim;
  for (int64_t h = 0; h < block.heads; ++h) {
    const int64_t from = block.at(shape, sequence, h) * dim, row = h * block.queries;
    cpu::pack_rows(x.q + from, ld, block.queries, dim, factor, buf.queries + row * dim);
    cpu::pack_rows(x.d_o + from, ld, block.queries, dim, A{1}, buf.d_out + row * dim);
    for (int64_t i = 0; i < block.queries; ++i) {
      const T* out = x.o + from + i * ld;
      const A* d_out = buf.d_out + (row + i) * dim;
      buf.dots[row + i] =
          cpu::lane_sum<A>(dim, [&](int64_t d) { return d_out[d] * cpu::widen(out[d]); });
    }
  }
}

template <typename T>
void block_grad(const AttentionShape& shape, const Buffers<Acc<T>>& buf, const Tensors<T>& x,
                const cpu::QueryBlock& block, int64_t sequence) {
  using A = Acc<T>;
  const int64_t dim = shape.head_dim, keys = block.keys(), rows = block.rows();
  const A factor = A{1} / std::sqrt(static_cast<A>(dim));
  pack_block(shape, buf, x, block, sequence, factor);
  cpu::gemm<A>(false, false, rows, keys, dim, A{1}, buf.queries, dim, buf.keys_transposed,
               shape.seq_len, A{0}, buf.scores, keys);
  cpu::gemm<A>(false, false, rows, keys, dim, A{1}, buf.d_out, dim, buf.values_transposed,
               shape.seq_len, A{0}, buf.d_scores, keys);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t query = r % block.queries;
    const int64_t at = block.at(shape, sequence, r / block.queries) + query * shape.heads;
    softmax_grad_row(buf.scores + r * keys, buf.d_scores + r * keys, block.first_query + query + 1,
                     keys, x.lse[at], buf.dots[r]);
  }
  cpu::gemm<A>(true, false, keys, dim, rows, A{1}, buf.scores, keys, buf.d_out, dim, A{1},
               buf.d_values, dim);
  // The queries carry the scale, the keys do not.
  cpu::gemm<A>(true, false, keys, dim, rows, A{1}, buf.d_scores, keys, buf.queries, dim, A{1},
               buf.d_keys, dim);
  cpu::gemm<A>(false, false, rows, dim, keys, factor, buf.d_scores, keys, buf.keys, dim, A{0},
               buf.d_queries, dim);
  for (int64_t h = 0; h < block.heads; ++h) {
    cpu::unpack_rows(buf.d_queries + h * block.queries * dim, block.queries, dim,
                     x.dq + block.at(shape, sequence, h) * dim, shape.heads * dim);
  }
}

template <typename T>
void attend_grad(const AttentionShape& shape, const Buffers<Acc<T>>& buf, const Tensors<T>& x,
                 int64_t sequence, int64_t kv_head) {
  using A = Acc<T>;
  const int64_t dim = shape.head_dim, seq_len = shape.seq_len;
  const int64_t kv_width = 2 * shape.kv_heads * dim, values = shape.kv_heads * dim;
  const int64_t first = sequence * seq_len;
  const int64_t offset = first * kv_width + kv_head * dim;
  cpu::pack_rows(x.kv + offset, kv_width, seq_len, dim, A{1}, buf.keys);
  cpu::pack_transposed(x.kv + offset, kv_width, seq_len, dim, buf.keys_transposed);
  cpu::pack_transposed(x.kv + offset + values, kv_width, seq_len, dim, buf.values_transposed);
  std::fill_n(buf.d_keys, seq_len * dim, A{0});
  std::fill_n(buf.d_values, seq_len * dim, A{0});
  cpu::for_each_block(shape, cpu::query_heads(shape, kv_head), [&](const cpu::QueryBlock& block) {
    block_grad(shape, buf, x, block, sequence);
  });
  cpu::unpack_rows(buf.d_keys, seq_len, dim, x.dkv + offset, kv_width);
  cpu::unpack_rows(buf.d_values, seq_len, dim, x.dkv + offset + values, kv_width);
}

}  // namespace

void attention_grad(Context& ctx, const Tensor& q, const Tensor& kv, const Tensor& o,
                    const Tensor& lse, const Tensor& d_o, Tensor& dq, Tensor& dkv,
                    const AttentionShape& shape) {
  constexpr const char* kOp = "attention_grad";
  cpu::check_attention(kOp, q, kv, lse, shape);
  cpu::check_tensor(kOp, "o", o, q.dtype, {q.dim(0), q.dim(1)});
  cpu::check_tensor(kOp, "d_o", d_o, q.dtype, {q.dim(0), q.dim(1)});
  cpu::check_tensor(kOp, "dq", dq, q.dtype, {q.dim(0), q.dim(1)});
  cpu::check_tensor(kOp, "dkv", dkv, q.dtype, {kv.dim(0), kv.dim(1)});
  cpu::use_one_blas_thread();
  const int size = ctx.workers.size();
  const int64_t per_member = workspace::attention_grad(q.dtype, shape.seq_len, shape.head_dim, 1);
  const cpu::Scratch whole(kOp, ctx.workspace, per_member * size);
  const int64_t items = q.dim(0) / shape.seq_len * shape.kv_heads;
  cpu::dispatch(kOp, q.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Tensors<T> x{q.as<T>(),   kv.as<T>(), o.as<T>(),  lse.as<Acc<T>>(),
                       d_o.as<T>(), dq.as<T>(), dkv.as<T>()};
    ctx.workers.run([&](int member) {
      cpu::Scratch scratch(kOp, cpu::member_part(ctx.workspace, per_member, member), per_member);
      const Buffers<Acc<T>> buf(scratch, shape);
      for (int64_t item = member; item < items; item += size) {
        attend_grad(shape, buf, x, item / shape.kv_heads, item % shape.kv_heads);
      }
    });
  });
}

}  // namespace tessera::kernels
