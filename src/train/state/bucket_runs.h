// Where the elements of logical tensors lie in the buffer that a rank keeps of a bucket: all of the
// bucket, or one shard.
#pragma once

#include <algorithm>
#include <cstdint>

#include "compile/step.h"

namespace tessera {

// The elements of a bucket (of one rank that splits weights) that a buffer of `numel` elements
// holds.
struct BucketWindow {
  int64_t begin = 0;
  int64_t end = 0;
};
inline BucketWindow window_of(const StepGraph& step, const Bucket& bucket, int64_t numel,
                              int rank) {
  const int64_t shard = step.mesh.position(rank, step.layout.shard_axes_of(bucket));
  const int64_t begin = numel == bucket.numel ? 0 : shard * numel;
  return {begin, begin + numel};
}

// Every element of a bucket has one owner, although several ranks may hold it: the one that speaks
// for it when tensors are put together.
inline bool owns(const StepGraph& step, const Bucket& bucket, int64_t numel, int rank) {
  const Mesh& mesh = step.mesh;
  const bool copied_over_shards = numel == bucket.numel;
  const ParameterLayout& layout = step.layout;
  return step.holds(rank, bucket.unit) &&
         mesh.position(rank, layout.replica_axes_of(bucket)) == 0 &&
         (!copied_over_shards || mesh.position(rank, layout.shard_axes_of(bucket)) == 0) &&
         (layout.split_axes_of(bucket).contains(Axis::kTp) || mesh.coord(rank, Axis::kTp) == 0);
}

// The place of a rank among those that split the weights of a bucket.
inline int64_t split_position(const StepGraph& step, const Bucket& bucket, int rank) {
  return step.mesh.position(rank, step.layout.split_axes_of(bucket));
}

// Elements of the weights of a bucket that a rank keeps.
inline int64_t kept_numel(const StepGraph& step, const Bucket& bucket) {
  return step.spec.parallel.zero >= 1 ? step.layout.shard_numel(bucket) : bucket.numel;
}

template <typename F>
void for_each_tensor(const Bucket& bucket, const F& f) {
  for (const Weight& weight : bucket.weights) {
    for (const LogicalTensor& tensor : weight.parts) f(tensor);
  }
}

// Calls f(first element of the tensor, first element of the bucket, count) for every row of the
// part that the rank at `position` (see split_position) holds.
template <typename F>
void for_each_row(const LogicalTensor& tensor, int64_t position, const F& f) {
  const Piece piece = piece_of(tensor, position);
  for (int64_t r = 0; r < piece.num_rows; ++r) {
    f((piece.first_row + r) * tensor.cols() + piece.first_col,
      piece.bucket_offset + r * piece.bucket_stride, piece.num_cols);
  }
}

// Calls f(first element of the tensor, first element of the buffer, count) for every run of
// elements that the tensor and the window have in common.
template <typename F>
void for_each_run(const LogicalTensor& tensor, int64_t position, const BucketWindow& window,
                  const F& f) {
  for_each_row(tensor, position, [&](int64_t first, int64_t at, int64_t count) {
    const int64_t from = std::max(at, window.begin);
    const int64_t to = std::min(at + count, window.end);
    if (from < to) f(first + from - at, from - window.begin, to - from);
  });
}

}  // namespace tessera
