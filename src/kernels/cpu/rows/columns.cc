// Columns of a matrix sorted by rank, before and behind an all-to-all.
#include <cstring>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"

namespace tessera::kernels::cpu {
namespace {

// Calls move(byte in the matrix [T, W], byte in the blocks [G, T, W/G], bytes) for every run of
// columns. The columns are `groups` equal groups, and every rank has its part of each.
template <typename F>
void for_each_run(Context& ctx, const Tensor& matrix, const Tensor& blocks, int64_t groups,
                  const F& move) {
  const int64_t ranks = blocks.dim(0), tokens = matrix.dim(0);
  const int64_t width = matrix.dim(1) * size_bytes(matrix.dtype);
  const int64_t group = width / groups, run = group / ranks;
  ctx.workers.parallel_for(tokens, 16, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t rank = 0; rank < ranks; ++rank) {
        for (int64_t g = 0; g < groups; ++g) {
          move(t * width + g * group + rank * run, ((rank * tokens + t) * groups + g) * run, run);
        }
      }
    }
  });
}

}  // namespace

void split_columns(Context& ctx, const Tensor& x, Tensor& y, int64_t groups) {
  const auto* from = static_cast<const std::byte*>(x.data);
  auto* to = static_cast<std::byte*>(y.data);
  for_each_run(ctx, x, y, groups, [&](int64_t in_matrix, int64_t in_blocks, int64_t bytes) {
    std::memcpy(to + in_blocks, from + in_matrix, static_cast<size_t>(bytes));
  });
}

void join_columns(Context& ctx, const Tensor& x, Tensor& y, int64_t groups) {
  const auto* from = static_cast<const std::byte*>(x.data);
  auto* to = static_cast<std::byte*>(y.data);
  for_each_run(ctx, y, x, groups, [&](int64_t in_matrix, int64_t in_blocks, int64_t bytes) {
    std::memcpy(to + in_matrix, from + in_blocks, static_cast<size_t>(bytes));
  });
}

}  // namespace tessera::kernels::cpu
