// Every kernel of the transformer, on dense row-major tensors.
//
// Letters: T tokens of this rank (whole sequences of S tokens, one after another), H model width,
// N/K columns of a product, V vocabulary rows of this rank, D head width. Tensors of one call have
// one storage type (f64, f32, bf16 or f16) unless a comment says otherwise; arithmetic is f64 for
// f64 and f32 for the others; statistics are stored in the accumulate type (f32 for bf16 and f16),
// and so are weight gradients, unless those of bf16 are given as bf16: then they are computed in
// f32 and rounded when they are stored. `accumulate` adds to the output instead of overwriting it.
// Results depend only on the inputs and on ctx.workers.size(): no atomics, no timing. Nothing
// allocates: scratch comes from ctx.workspace, whose size base/workspace.h gives. Every shape is
// checked (InternalError).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dropout.h"
#include "base/sequence_rows.h"
#include "base/step_params.h"
#include "tensor/tensor.h"
#include "tensor/workers.h"

namespace tessera::kernels {

namespace cuda {
class Gpu;
}

// Tensors, workspace and params are in the memory of the device that computes.
struct Context {
  Workers& workers;
  std::span<std::byte> workspace;
  const StepParams* params = nullptr;  // of kernels that say so
  cuda::Gpu* gpu = nullptr;            // null: the CPU computes
};

// ---- linear ----  y[T,N] = x[T,K] w[N,K]^T
void linear(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y);
// dx[T,K] = dy[T,N] w[N,K]   (+= when accumulate)
void linear_dx(Context& ctx, const Tensor& dy, const Tensor& w, Tensor& dx, bool accumulate);
// dw[N,K] = dy[T,N]^T x[T,K]
void linear_dw(Context& ctx, const Tensor& dy, const Tensor& x, Tensor& dw, bool accumulate);

// ---- linear, and what follows it ----
// z = x w^T + b; h = gelu(z) unless its data is null. h may be z.
void linear_bias(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, Tensor& z,
                 Tensor& h);
// dz = the gradient through gelu(z) of dy w. dz is not z.
void linear_dx_gelu(Context& ctx, const Tensor& dy, const Tensor& w, const Tensor& z, Tensor& dz);
// linear_dw, and db = bias_dw of dy.
void linear_dw_bias(Context& ctx, const Tensor& dy, const Tensor& x, Tensor& dw, Tensor& db,
                    bool accumulate);

// ---- embedding ----  rows [first_row, first_row + V) of the vocabulary live here.
// y[t] = table[ids[t] - first_row], or zeros when the id lives elsewhere.
void embedding(Context& ctx, const Tensor& ids, const Tensor& table, Tensor& y, int64_t first_row);
// dtable[id - first_row] += dy[t], in token order; without accumulate dtable is zeroed first.
void embedding_dw(Context& ctx, const Tensor& ids, const Tensor& dy, Tensor& dtable,
                  int64_t first_row, bool accumulate);

// ---- RMSNorm ----  y = x / sqrt(mean(x^2) + eps) * w;  rstd[T] in the accumulate type.
void rms_norm(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, Tensor& rstd, double eps);
// sum = a + b; then as rms_norm of sum. sum may be a or b.
void add_rms_norm(Context& ctx, const Tensor& a, const Tensor& b, const Tensor& w, Tensor& sum,
                  Tensor& y, Tensor& rstd, double eps);
// dx = the gradient through the norm, plus `residual` when its data is not null (dx may be it).
void rms_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                 const Tensor& rstd, const Tensor& residual, Tensor& dx);
void rms_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& rstd, Tensor& dw,
                 bool accumulate);
// Both; dx is overwritten whatever `accumulate` says.
void rms_norm_grad(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                   const Tensor& rstd, const Tensor& residual, Tensor& dx, Tensor& dw,
                   bool accumulate);

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

// ---- columns by rank, around an all-to-all ----  The W columns are `groups` equal groups, and
// each of G ranks has its part of every group. y[G, T, W/G]: the columns of each rank together.
void split_columns(Context& ctx, const Tensor& x, Tensor& y, int64_t groups);
// The other way: x[G, T, W/G] > y[T, W].
void join_columns(Context& ctx, const Tensor& x, Tensor& y, int64_t groups);

// ---- SwiGLU ----  gate_up[T, 2F] (gate first); h[T,F] = silu(gate) * up
void swiglu(Context& ctx, const Tensor& gate_up, Tensor& h);
// d_gate_up may be gate_up.
void swiglu_grad(Context& ctx, const Tensor& dh, const Tensor& gate_up, Tensor& d_gate_up);

// ---- LayerNorm ----  y = (x - mean) * rstd * w + b;  stats[T,2] in the accumulate type: mean,
// rstd = 1 / sqrt(variance + eps).
void layer_norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y,
                Tensor& stats, double eps);
// sum = a1 + a2; then as layer_norm of sum. sum may be a1 or a2.
void add_layer_norm(Context& ctx, const Tensor& a1, const Tensor& a2, const Tensor& w,
                    const Tensor& b, Tensor& sum, Tensor& y, Tensor& stats, double eps);
// dx = the gradient through the norm, plus `residual` when its data is not null (dx may be it).
void layer_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                   const Tensor& stats, const Tensor& residual, Tensor& dx);
// The gradient of b is bias_dw of dy.
void layer_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& stats, Tensor& dw,
                   bool accumulate);
// layer_norm_dw, and db = bias_dw of dy. dw and db are of one type.
void layer_norm_dw_bias(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& stats,
                        Tensor& dw, Tensor& db, bool accumulate);
// All three; dx is overwritten whatever `accumulate` says.
void layer_norm_grad(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                     const Tensor& stats, const Tensor& residual, Tensor& dx, Tensor& dw,
                     Tensor& db, bool accumulate);

// ---- bias ----  y[t] = x[t] + b; y may be x.
void add_bias(Context& ctx, const Tensor& x, const Tensor& b, Tensor& y);
// db[N] = sum over t of dy[t]
void bias_dw(Context& ctx, const Tensor& dy, Tensor& db, bool accumulate);

// ---- GELU ----  the tanh form: h = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2; h may be x.
void gelu(Context& ctx, const Tensor& x, Tensor& h);
// dx may be x or dh.
void gelu_grad(Context& ctx, const Tensor& dh, const Tensor& x, Tensor& dx);

// ---- learned positions ----  y[t] = x[t] + table[position of row first_token + t]; y may be x.
// `rows` says which positions the rows have (base/sequence_rows.h); first_token is 0 unless ranks
// split those rows further. table[M,H] has at least S rows.
void add_positions(Context& ctx, const Tensor& x, const Tensor& table, Tensor& y,
                   const SequenceRows& rows, int64_t first_token);
// Without accumulate dtable is zeroed first.
void positions_dw(Context& ctx, const Tensor& dy, Tensor& dtable, const SequenceRows& rows,
                  int64_t first_token, bool accumulate);

// ---- RMSNorm of every head ----  x[T,W] begins with heads of D columns; each is normalised on its
// own and multiplied by w[D]; the columns after them are copied. rstd[T, heads].
void head_norm(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, Tensor& rstd, double eps);
// dx may be dy.
void head_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                  const Tensor& rstd, Tensor& dx);
void head_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& rstd, Tensor& dw,
                  bool accumulate);

// ---- element-wise ----  y = a + b; y may be a or b.
void add(Context& ctx, const Tensor& a, const Tensor& b, Tensor& y);

// ---- dropout ----  y = x * mask; y may be x. Row t is row first_token + t of the micro-batch,
// `rows` says of which position. The gradient is the same call on dy. Reads ctx.params.
void dropout(Context& ctx, const Tensor& x, Tensor& y, const DropoutMask& mask,
             const SequenceRows& rows, int64_t first_token);

// ---- cross entropy over a vocabulary that may be split ----
// logits[T,V] of rows [first_row, first_row + valid); columns >= valid are padding and are ignored.
// stats[T,3] in the accumulate type: max, sum of exp(x - max), logit of the label (0 if elsewhere
// or masked, label < 0). With valid == 0: max = -inf, sum = 0.
void cross_entropy_stats(Context& ctx, const Tensor& logits, const Tensor& labels, Tensor& stats,
                         int64_t first_row, int64_t valid);
// all_stats[G,T,3] of the G vocabulary parts. loss[1] (f64) (+)= sum over unmasked tokens of
// log sum exp - label logit. Labels outside the vocabulary are the caller's error.
void cross_entropy_loss(Context& ctx, const Tensor& all_stats, const Tensor& labels, Tensor& loss,
                        bool accumulate);
// d_logits = (softmax - one-hot) times the loss scale of ctx.params for unmasked tokens, zero for
// masked ones and padding columns. d_logits may be logits.
void cross_entropy_grad(Context& ctx, const Tensor& logits, const Tensor& all_stats,
                        const Tensor& labels, Tensor& d_logits, int64_t first_row, int64_t valid);

// ---- optimizer, on flat tensors ----
// Several tensors in one call, at most kMostGroupedBuckets, all of one type.
struct SquaredTensor {
  Tensor x;
  int64_t metric = 0;
};
// metrics[metric] (f64) += sum of x^2, accumulated in f64 in a fixed order. The metrics ascend.
void sum_squares(Context& ctx, std::span<const SquaredTensor> tensors, Tensor& metrics);
// Adds loss[1] and the number of unmasked labels, and of those of the last of `updates` equal
// parts, to the head of `metrics`.
void add_metrics(Context& ctx, const Tensor& loss, const Tensor& labels, Tensor& metrics,
                 int64_t updates);
// counts[i] (f64) = unmasked labels of part i of counts.numel() equal ones.
void count_tokens(Context& ctx, const Tensor& labels, Tensor& counts);
// master, m, v: the accumulate type. grad: as weight gradients above. weight: storage type, written
// from master; weight and master may be the same tensor (f32 and f64 training keep one copy). A
// master of 16-bit elements beside a bf16 weight holds the rests of base/master_weight.h: then
// weight is read too. All buckets of a call are alike in this.
struct UpdatedTensors {
  Tensor master, m, v, grad, weight;
  bool decay = false;
};
// w -= lr * weight_decay * w;  w -= lr * mhat / (sqrt(vhat) + eps), as PyTorch's AdamW, with
// ctx.params; `known` (f64) gives the norm and the tokens (base/step_params.h).
void adamw(Context& ctx, std::span<const UpdatedTensors> buckets, const Tensor& known,
           const UpdatePlace& place);

// ---- plain movement ----
void fill_zero(Context& ctx, Tensor& x);
void copy(Context& ctx, const Tensor& x, Tensor& y);  // converts between types
// y += x, y in the accumulate type, or bf16 like x.
void accumulate_into(Context& ctx, const Tensor& x, Tensor& y);
void scale(Context& ctx, Tensor& x, double factor);
// Index of the first NaN or Inf, or -1. Integers are always finite.
int64_t first_nonfinite(const Tensor& x);

// "BLIS 0.9.0", "OpenBLAS 0.3.21", … for `tessera doctor`.
const char* blas_name();

}  // namespace tessera::kernels
