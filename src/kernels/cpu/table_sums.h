// Gradients of tables: rows that tokens chose get the sum of those tokens' gradients.
#pragma once

#include <algorithm>

#include "base/workspace.h"
#include "kernels/context.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/scratch.h"

namespace tessera::kernels::cpu {

// to[row_of(t), c - first] += dy[t, c] for columns [begin, end), in token order; tokens with a
// negative row are left out.
template <typename T, typename RowOf>
void add_columns(const Tensor& dy, const RowOf& row_of, int64_t begin, int64_t end, Acc<T>* to,
                 int64_t first, int64_t stride) {
  for (int64_t t = 0; t < dy.dim(0); ++t) {
    const int64_t row = row_of(t);
    if (row < 0) continue;
    const T* from = dy.as<T>() + t * dy.dim(1);
    Acc<T>* sums = to + row * stride - first;
    for (int64_t c = begin; c < end; ++c) sums[c] += widen(from[c]);
  }
}

// The same for a table of narrow elements: a few columns at a time are widened into scratch, summed
// there, and rounded once.
template <typename T, typename RowOf>
void add_to_narrow_table(const char* op, Context& ctx, const Tensor& dy, const RowOf& row_of,
                         Tensor& dtable) {
  constexpr int64_t kColumns = workspace::kTableColumns;
  const int64_t rows = dtable.dim(0), width = dtable.dim(1), members = ctx.workers.size();
  const int64_t needed = workspace::table_grad(dtable.dtype, rows, ctx.workers.size());
  auto* scratch = Scratch(op, ctx.workspace, needed).take<std::byte>(needed);
  ctx.workers.run([&](int member) {
    auto* strip = reinterpret_cast<Acc<T>*>(scratch + needed / members * member);
    for (int64_t first = member * kColumns; first < width; first += members * kColumns) {
      const int64_t columns = std::min(kColumns, width - first);
      T* table = dtable.as<T>() + first;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) strip[r * kColumns + c] = widen(table[r * width + c]);
      }
      add_columns<T>(dy, row_of, first, first + columns, strip, first, kColumns);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          table[r * width + c] = narrow<T>(strip[r * kColumns + c]);
        }
      }
    }
  });
}

// dtable[row_of(t)] += dy[t]. Every member owns some columns and walks all tokens, so a row's sum
// is in token order whatever the number of threads.
template <typename T, typename RowOf>
void add_to_table(const char* op, Context& ctx, const Tensor& dy, const RowOf& row_of,
                  Tensor& dtable) {
  const int64_t width = dtable.dim(1);
  with_gradient<T>(dtable, [&](auto gradient) {
    using G = typename decltype(gradient)::type;
    if constexpr (kIsNarrow<G>) {
      add_to_narrow_table<T>(op, ctx, dy, row_of, dtable);
    } else {
      ctx.workers.parallel_for(width, 16, [&](int64_t begin, int64_t end) {
        add_columns<T>(dy, row_of, begin, end, dtable.as<G>(), 0, width);
      });
    }
  });
}

}  // namespace tessera::kernels::cpu
