#include "kernels/experts.h"

#include <algorithm>

#include "kernels/bodies.h"
#include "kernels/check.h"

namespace tessera::kernels {
namespace {

void check_stats(const char* op, const Tensor& logits, const RouterRows& rows,
                 const Tensor& stats) {
  check_dims(op, "logits", logits, 2);
  check_dims(op, "stats", stats, 2);
  const int64_t tokens = logits.dim(0), experts = logits.dim(1);
  check_tensor(op, "stats", stats, DType::kF64, {stats.dim(0), 2 * experts + 1});
  TESSERA_CHECK(rows.first_token + tokens <= stats.dim(0) * rows.tokens_per_sequence,
                "{}: tokens {} to {} of {} sequences of {}", op, rows.first_token,
                rows.first_token + tokens, stats.dim(0), rows.tokens_per_sequence);
}

void check_totals(const char* op, const Tensor& totals, const BalanceShape& shape) {
  check_dims(op, "totals", totals, 2);
  check_tensor(op, "totals", totals, DType::kF64, {totals.dim(0), 2 * shape.experts + 1});
  TESSERA_CHECK(shape.group >= 1, "{}: groups of {} sequences", op, shape.group);
}

int64_t last_dim(const Tensor& x) { return x.dim(x.num_dims - 1); }

int64_t num_rows(const Tensor& x) { return x.numel() / std::max<int64_t>(1, last_dim(x)); }

// L of counts[B,L], which divide so many rows into B equal blocks. What the counts say is in the
// memory of the device: bodies look.
int64_t check_blocks(const char* op, const Tensor& counts, int64_t rows) {
  const int64_t local = last_dim(counts);
  TESSERA_CHECK(local > 0 && counts.numel() > 0, "{}: no experts", op);
  check_flat(op, "counts", counts, DType::kI32, counts.numel());
  TESSERA_CHECK(rows % (counts.numel() / local) == 0, "{}: {} rows in {} blocks", op, rows,
                counts.numel() / local);
  return local;
}

}  // namespace

void router(Context& ctx, const Tensor& logits, Tensor& gates, Tensor& ids) {
  constexpr const char* kOp = "router";
  check_dims(kOp, "logits", logits, 2);
  check_dims(kOp, "gates", gates, 2);
  const int64_t tokens = logits.dim(0), experts = logits.dim(1), k = gates.dim(1);
  check_tensor(kOp, "gates", gates, accumulate_type(logits.dtype), {tokens, k});
  check_tensor(kOp, "ids", ids, DType::kI32, {tokens, k});
  TESSERA_CHECK(k >= 1 && k <= experts, "{}: {} of {} experts", kOp, k, experts);
  bodies_of(ctx).router(ctx, logits, gates, ids);
}

void router_grad(Context& ctx, const Tensor& d_gates, const Tensor& gates, const Tensor& ids,
                 Tensor& d_logits, bool accumulate) {
  constexpr const char* kOp = "router_grad";
  check_dims(kOp, "gates", gates, 2);
  check_dims(kOp, "d_logits", d_logits, 2);
  const int64_t tokens = gates.dim(0), k = gates.dim(1), experts = d_logits.dim(1);
  check_tensor(kOp, "gates", gates, accumulate_type(d_logits.dtype), {tokens, k});
  check_tensor(kOp, "d_gates", d_gates, gates.dtype, {tokens, k});
  check_tensor(kOp, "ids", ids, DType::kI32, {tokens, k});
  check_tensor(kOp, "d_logits", d_logits, d_logits.dtype, {tokens, experts});
  bodies_of(ctx).router_grad(ctx, d_gates, gates, ids, d_logits, accumulate);
}

void router_stats(Context& ctx, const Tensor& logits, const Tensor& ids, const RouterRows& rows,
                  Tensor& stats, Tensor& load, bool accumulate) {
  constexpr const char* kOp = "router_stats";
  check_stats(kOp, logits, rows, stats);
  check_dims(kOp, "ids", ids, 2);
  const int64_t tokens = logits.dim(0), experts = logits.dim(1), k = ids.dim(1);
  check_tensor(kOp, "ids", ids, DType::kI32, {tokens, k});
  check_flat(kOp, "load", load, DType::kF64, experts);
  if (!accumulate) bodies_of(ctx).fill_zero(ctx, stats);  // bodies add
  bodies_of(ctx).router_stats(ctx, logits, ids, rows, stats, load, accumulate);
}

void router_stats_grad(Context& ctx, const Tensor& logits, const Tensor& d_stats,
                       const RouterRows& rows, Tensor& d_logits, bool accumulate) {
  constexpr const char* kOp = "router_stats_grad";
  check_stats(kOp, logits, rows, d_stats);
  const int64_t tokens = logits.dim(0), experts = logits.dim(1);
  check_tensor(kOp, "d_logits", d_logits, logits.dtype, {tokens, experts});
  bodies_of(ctx).router_stats_grad(ctx, logits, d_stats, rows, d_logits, accumulate);
}

void dispatch_rows(Context& ctx, const Tensor& x, const Tensor& ids, Tensor& rows, Tensor& counts,
                   Tensor& slots) {
  constexpr const char* kOp = "dispatch_rows";
  check_dims(kOp, "x", x, 2);
  check_dims(kOp, "ids", ids, 2);
  const int64_t tokens = x.dim(0), width = x.dim(1), k = ids.dim(1);
  const int64_t local = last_dim(counts), peers = counts.numel() / local;
  const int64_t capacity = rows.numel() / width / peers;
  check_tensor(kOp, "ids", ids, DType::kI32, {tokens, k});
  check_tensor(kOp, "slots", slots, DType::kI32, {tokens, k});
  check_flat(kOp, "counts", counts, DType::kI32, peers * local);
  check_flat(kOp, "rows", rows, x.dtype, peers * capacity * width);
  bodies_of(ctx).dispatch_rows(ctx, x, ids, rows, counts, slots);
}

void dispatch_rows_grad(Context& ctx, const Tensor& d_rows, const Tensor& slots, Tensor& dx) {
  constexpr const char* kOp = "dispatch_rows_grad";
  check_dims(kOp, "dx", dx, 2);
  check_dims(kOp, "slots", slots, 2);
  const int64_t tokens = dx.dim(0), k = slots.dim(1);
  check_flat(kOp, "d_rows", d_rows, dx.dtype, d_rows.numel());
  check_tensor(kOp, "slots", slots, DType::kI32, {tokens, k});
  bodies_of(ctx).dispatch_rows_grad(ctx, d_rows, slots, dx);
}

void combine_rows(Context& ctx, const Tensor& rows, const Tensor& slots, const Tensor& gates,
                  Tensor& y) {
  constexpr const char* kOp = "combine_rows";
  check_dims(kOp, "y", y, 2);
  check_dims(kOp, "gates", gates, 2);
  const int64_t tokens = y.dim(0), k = gates.dim(1);
  check_flat(kOp, "rows", rows, y.dtype, rows.numel());
  check_tensor(kOp, "gates", gates, accumulate_type(y.dtype), {tokens, k});
  check_tensor(kOp, "slots", slots, DType::kI32, {tokens, k});
  bodies_of(ctx).combine_rows(ctx, rows, slots, gates, y);
}

void combine_rows_grad(Context& ctx, const Tensor& dy, const Tensor& rows, const Tensor& slots,
                       const Tensor& gates, Tensor& d_rows, Tensor& d_gates) {
  constexpr const char* kOp = "combine_rows_grad";
  check_dims(kOp, "dy", dy, 2);
  check_dims(kOp, "gates", gates, 2);
  const int64_t tokens = dy.dim(0), k = gates.dim(1);
  check_flat(kOp, "rows", rows, dy.dtype, rows.numel());
  check_flat(kOp, "d_rows", d_rows, dy.dtype, rows.numel());
  check_tensor(kOp, "gates", gates, accumulate_type(dy.dtype), {tokens, k});
  check_tensor(kOp, "d_gates", d_gates, gates.dtype, {tokens, k});
  check_tensor(kOp, "slots", slots, DType::kI32, {tokens, k});
  bodies_of(ctx).combine_rows_grad(ctx, dy, rows, slots, gates, d_rows, d_gates);
}

void expert_linear(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& counts,
                   Tensor& y) {
  constexpr const char* kOp = "expert_linear";
  const int64_t rows = num_rows(x), local = check_blocks(kOp, counts, rows);
  check_flat(kOp, "x", x, x.dtype, rows * last_dim(x));
  check_tensor(kOp, "w", w, x.dtype, {local, last_dim(y), last_dim(x)});
  check_flat(kOp, "y", y, x.dtype, rows * last_dim(y));
  bodies_of(ctx).expert_linear(ctx, x, w, counts, y);
}

void expert_linear_dx(Context& ctx, const Tensor& dy, const Tensor& w, const Tensor& counts,
                      Tensor& dx) {
  constexpr const char* kOp = "expert_linear_dx";
  const int64_t rows = num_rows(dx), local = check_blocks(kOp, counts, rows);
  check_flat(kOp, "dy", dy, dy.dtype, rows * last_dim(dy));
  check_tensor(kOp, "w", w, dy.dtype, {local, last_dim(dy), last_dim(dx)});
  check_flat(kOp, "dx", dx, dy.dtype, rows * last_dim(dx));
  bodies_of(ctx).expert_linear_dx(ctx, dy, w, counts, dx);
}

void expert_linear_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& counts,
                      Tensor& dw, bool accumulate) {
  constexpr const char* kOp = "expert_linear_dw";
  const int64_t rows = num_rows(dy), local = check_blocks(kOp, counts, rows);
  check_flat(kOp, "dy", dy, dy.dtype, rows * last_dim(dy));
  check_flat(kOp, "x", x, dy.dtype, rows * last_dim(x));
  check_tensor(kOp, "dw", dw, gradient_type(dy.dtype, dw), {local, last_dim(dy), last_dim(x)});
  bodies_of(ctx).expert_linear_dw(ctx, dy, x, counts, dw, accumulate);
}

void expert_swiglu(Context& ctx, const Tensor& gate_up, const Tensor& counts, Tensor& h) {
  constexpr const char* kOp = "expert_swiglu";
  check_blocks(kOp, counts, num_rows(h));
  check_flat(kOp, "gate_up", gate_up, h.dtype, 2 * h.numel());
  check_flat(kOp, "h", h, h.dtype, h.numel());
  bodies_of(ctx).expert_swiglu(ctx, gate_up, counts, h);
}

void expert_swiglu_grad(Context& ctx, const Tensor& dh, const Tensor& gate_up, const Tensor& counts,
                        Tensor& d_gate_up) {
  constexpr const char* kOp = "expert_swiglu_grad";
  check_blocks(kOp, counts, num_rows(dh));
  check_flat(kOp, "dh", dh, dh.dtype, dh.numel());
  check_flat(kOp, "gate_up", gate_up, dh.dtype, 2 * dh.numel());
  check_flat(kOp, "d_gate_up", d_gate_up, dh.dtype, 2 * dh.numel());
  bodies_of(ctx).expert_swiglu_grad(ctx, dh, gate_up, counts, d_gate_up);
}

void balance_totals(Context& ctx, const Tensor& stats, const Tensor& labels, Tensor& totals) {
  constexpr const char* kOp = "balance_totals";
  check_dims(kOp, "stats", stats, 2);
  const int64_t sequences = stats.dim(0), columns = stats.dim(1);
  check_tensor(kOp, "stats", stats, DType::kF64, {sequences, columns});
  check_tensor(kOp, "totals", totals, DType::kF64, {sequences, columns});
  check_flat(kOp, "labels", labels, DType::kI32, labels.numel());
  TESSERA_CHECK(labels.numel() % sequences == 0, "{}: {} labels of {} sequences", kOp,
                labels.numel(), sequences);
  bodies_of(ctx).balance_totals(ctx, stats, labels, totals);
}

void balance_loss(Context& ctx, const Tensor& totals, const Tensor& labels, int64_t num_sequences,
                  const BalanceShape& shape, Tensor& loss, bool accumulate) {
  constexpr const char* kOp = "balance_loss";
  check_totals(kOp, totals, shape);
  check_flat(kOp, "labels", labels, DType::kI32, labels.numel());
  check_flat(kOp, "loss", loss, DType::kF64, 1);
  TESSERA_CHECK(num_sequences > 0 && labels.numel() % num_sequences == 0 &&
                    shape.first_sequence + num_sequences <= totals.dim(0),
                "{}: {} labels, sequences {} + {} of {}", kOp, labels.numel(), shape.first_sequence,
                num_sequences, totals.dim(0));
  bodies_of(ctx).balance_loss(ctx, totals, labels, num_sequences, shape, loss, accumulate);
}

void balance_grad(Context& ctx, const Tensor& totals, const BalanceShape& shape, Tensor& d_totals) {
  constexpr const char* kOp = "balance_grad";
  check_totals(kOp, totals, shape);
  check_tensor(kOp, "d_totals", d_totals, DType::kF64, {totals.dim(0), totals.dim(1)});
  check_params(kOp, ctx.params);
  bodies_of(ctx).balance_grad(ctx, totals, shape, d_totals);
}

}  // namespace tessera::kernels
