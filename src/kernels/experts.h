// Kernels of a mixture-of-experts layer.
//
// Letters: T tokens of this rank, E experts of the model, L experts of this rank, k experts of one
// token, H width. Rows travel in blocks of C rows (the capacity), one block per peer: a block holds
// its rows sorted by expert, then by token; counts[B,L] (i32) says how many each expert has, and
// rows beyond their sum are zero. An expert may have no rows, or all of them. The rules of
// context.h hold here too.
#pragma once

#include "kernels/context.h"

namespace tessera::kernels {

// ---- router ----
// gates[T,k] (accumulate type): the k largest of softmax(logits[T,E]), divided by their sum;
// ids[T,k] (i32): whose they are, the largest first, ties to the lower id.
void router(Context& ctx, const Tensor& logits, Tensor& gates, Tensor& ids);
// dlogits[T,E] (+)= the gradient through gates; experts that were not chosen get none.
void router_grad(Context& ctx, const Tensor& d_gates, const Tensor& gates, const Tensor& ids,
                 Tensor& d_logits, bool accumulate);

// ---- statistics of the router, per sequence ----
// Row t of this rank belongs to sequence (first_token + t) / tokens_per_sequence.
struct RouterRows {
  int64_t first_token = 0;
  int64_t tokens_per_sequence = 1;
};
// stats[G, 2E+1] (f64, +=  when accumulate), for each sequence: how often each expert was chosen,
// the sum of each expert's probability, and 0. load[E] (f64) += how often each was chosen in all.
void router_stats(Context& ctx, const Tensor& logits, const Tensor& ids, const RouterRows& rows,
                  Tensor& stats, Tensor& load, bool accumulate);
// d_logits[T,E] (+)= the gradient through the sums of probabilities.
void router_stats_grad(Context& ctx, const Tensor& logits, const Tensor& d_stats,
                       const RouterRows& rows, Tensor& d_logits, bool accumulate);

// ---- tokens to experts and back ----
// rows[P,C,H], counts[P,L], slots[T,k] (i32): the row of the P * C that holds x[t] for expert
// ids[t,j]; expert e is expert e mod L of peer e / L. Throws Error when a block overflows.
void dispatch_rows(Context& ctx, const Tensor& x, const Tensor& ids, Tensor& rows, Tensor& counts,
                   Tensor& slots);
// dx[t] = sum over j of d_rows[slots[t,j]]
void dispatch_rows_grad(Context& ctx, const Tensor& d_rows, const Tensor& slots, Tensor& dx);
// y[t] = sum over j of gates[t,j] * rows[slots[t,j]]
void combine_rows(Context& ctx, const Tensor& rows, const Tensor& slots, const Tensor& gates,
                  Tensor& y);
void combine_rows_grad(Context& ctx, const Tensor& dy, const Tensor& rows, const Tensor& slots,
                       const Tensor& gates, Tensor& d_rows, Tensor& d_gates);

// ---- experts ----  y = x w[expert]^T for every row; x[B,C,K], w[L,N,K], y[B,C,N].
// Scratch: that of a linear over C tokens.
void expert_linear(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& counts, Tensor& y);
void expert_linear_dx(Context& ctx, const Tensor& dy, const Tensor& w, const Tensor& counts,
                      Tensor& dx);
// dw[L,N,K]; zero (or unchanged) for an expert without rows.
void expert_linear_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& counts,
                      Tensor& dw, bool accumulate);
// gate_up[B,C,2F], h[B,C,F]
void expert_swiglu(Context& ctx, const Tensor& gate_up, const Tensor& counts, Tensor& h);
// d_gate_up may be gate_up.
void expert_swiglu_grad(Context& ctx, const Tensor& dh, const Tensor& gate_up, const Tensor& counts,
                        Tensor& d_gate_up);

// ---- load-balancing loss ----
// For every group of `group` sequences (the last may be shorter), over the tokens of all layers:
// E * sum over experts of (share of choices) * (mean probability), weighted by coef and by the
// unmasked labels of the group.
struct BalanceShape {
  int64_t experts = 1;
  int64_t layers = 1;
  int64_t seq_len = 1;         // tokens of a whole sequence
  int64_t group = 1;           // sequences whose tokens the means run over
  int64_t first_sequence = 0;  // row of `totals` of this rank's first sequence
  double coef = 0;
};
// totals[G, 2E+1] = stats with the number of unmasked labels of each sequence in the last column;
// labels (i32) are those of G sequences, or of this rank's part of each.
void balance_totals(Context& ctx, const Tensor& stats, const Tensor& labels, Tensor& totals);
// loss[1] (f64) (+)= the share of this rank, which is that of its `num_sequences` of labels.
void balance_loss(Context& ctx, const Tensor& totals, const Tensor& labels, int64_t num_sequences,
                  const BalanceShape& shape, Tensor& loss, bool accumulate);
// Times the loss scale of ctx.params.
void balance_grad(Context& ctx, const Tensor& totals, const BalanceShape& shape, Tensor& d_totals);

}  // namespace tessera::kernels
