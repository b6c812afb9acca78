// Bytes from here to there.
#pragma once

#include "kernels/context.h"

namespace tessera::kernels {

// ---- plain movement ----
void fill_zero(Context& ctx, Tensor& x);
void copy(Context& ctx, const Tensor& x, Tensor& y);  // converts between types
// y += x, y in the accumulate type, or bf16 like x.
void accumulate_into(Context& ctx, const Tensor& x, Tensor& y);
void scale(Context& ctx, Tensor& x, double factor);
// Index of the first NaN or Inf, or -1. Integers are always finite.
int64_t first_nonfinite(const Tensor& x);

// ---- columns by rank, around an all-to-all ----  The W columns are `groups` equal groups, and
// each of G ranks has its part of every group. y[G, T, W/G]: the columns of each rank together.
void split_columns(Context& ctx, const Tensor& x, Tensor& y, int64_t groups);
// The other way: x[G, T, W/G] > y[T, W].
void join_columns(Context& ctx, const Tensor& x, Tensor& y, int64_t groups);

}  // namespace tessera::kernels
