// Rows of tables: those of the vocabulary, and learned positions.
#pragma once

#include "base/sequence_rows.h"
#include "kernels/context.h"

namespace tessera::kernels {

// ---- embedding ----  rows [first_row, first_row + V) of the vocabulary live here.
// y[t] = table[ids[t] - first_row], or zeros when the id lives elsewhere.
void embedding(Context& ctx, const Tensor& ids, const Tensor& table, Tensor& y, int64_t first_row);
// dtable[id - first_row] += dy[t], in token order; without accumulate dtable is zeroed first.
void embedding_dw(Context& ctx, const Tensor& ids, const Tensor& dy, Tensor& dtable,
                  int64_t first_row, bool accumulate);

// ---- learned positions ----  y[t] = x[t] + table[position of row first_token + t]; y may be x.
// `rows` says which positions the rows have (base/sequence_rows.h); first_token is 0 unless ranks
// split those rows further. table[M,H] has at least S rows.
void add_positions(Context& ctx, const Tensor& x, const Tensor& table, Tensor& y,
                   const SequenceRows& rows, int64_t first_token);
// Without accumulate dtable is zeroed first.
void positions_dw(Context& ctx, const Tensor& dy, Tensor& dtable, const SequenceRows& rows,
                  int64_t first_token, bool accumulate);

}  // namespace tessera::kernels
