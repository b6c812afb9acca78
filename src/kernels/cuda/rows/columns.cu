// Columns of a matrix sorted by rank, before and behind an all-to-all.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/map.cuh"

namespace tessera::kernels::cuda {
namespace {

// A piece: one U of the blocks [G, T, groups, run], which is the matrix [T, groups, G, run] in
// another order.
template <typename U>
struct Move {
  static constexpr int kPieces = 2;
  using Loaded = U;
  const U* from;
  U* to;
  bool split;  // to the blocks; else to the matrix
  int64_t ranks;
  Divider run, groups, tokens;

  __device__ int64_t in_matrix(int64_t in_blocks) const {
    const Place in_run = place_of(in_blocks, run);
    const Place group = place_of(in_run.row, groups);
    const Place token = place_of(group.row, tokens);
    const int64_t run_of_matrix =
        (token.column * groups.divisor() + group.column) * ranks + token.row;
    return run_of_matrix * run.divisor() + in_run.column;
  }
  __device__ U load(int64_t i) const { return from[split ? in_matrix(i) : i]; }
  __device__ void store(int64_t i, const U& loaded) const { to[split ? i : in_matrix(i)] = loaded; }
};

template <typename U>
void move(const char* op, const Gpu& gpu, const Tensor& matrix, const Tensor& blocks,
          int64_t groups, bool split) {
  const int64_t size = static_cast<int64_t>(sizeof(U)), ranks = blocks.dim(0);
  const int64_t run = blocks.dim(2) * size_bytes(blocks.dtype) / groups / size;
  const auto* from = (split ? matrix : blocks).as<const U>();
  auto* to = (split ? blocks : matrix).as<U>();
  map_pieces(
      op, gpu, matrix.bytes() / size,
      Move<U>{from, to, split, ranks, Divider(run), Divider(groups), Divider(matrix.dim(0))});
}

void run(const char* op, const Gpu& gpu, const Tensor& matrix, const Tensor& blocks, int64_t groups,
         bool split) {
  if (matrix.numel() == 0) return;
  const int64_t element = size_bytes(matrix.dtype);
  const int64_t run_bytes = blocks.dim(2) * element / groups;
  if (packable<std::byte>(run_bytes, matrix.as<std::byte>(), blocks.as<std::byte>())) {
    return move<uint4>(op, gpu, matrix, blocks, groups, split);
  }
  switch (element) {
    case 8:
      return move<uint64_t>(op, gpu, matrix, blocks, groups, split);
    case 4:
      return move<uint32_t>(op, gpu, matrix, blocks, groups, split);
    case 2:
      return move<uint16_t>(op, gpu, matrix, blocks, groups, split);
    default:
      return move<uint8_t>(op, gpu, matrix, blocks, groups, split);
  }
}

}  // namespace

void split_columns(Context& ctx, const Tensor& x, Tensor& y, int64_t groups) {
  run("split_columns", *ctx.gpu, x, y, groups, true);
}

void join_columns(Context& ctx, const Tensor& x, Tensor& y, int64_t groups) {
  run("join_columns", *ctx.gpu, y, x, groups, false);
}

}  // namespace tessera::kernels::cuda
