#include "train/state/state_layout.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "train/state/bucket_runs.h"

namespace tessera {
namespace {

struct PartKind {
  StatePart part;
  std::string prefix;
  StoredType type;
};

std::vector<PartKind> parts_of(const RunSpec& spec) {
  const DType dtype = spec.train.dtype;
  const StoredType wide = stored_type(accumulate_type(dtype));
  const bool adam = spec.optimizer.kind == OptimizerKind::kAdamW;
  std::vector<PartKind> parts = {{StatePart::kWeights, "", stored_type(dtype)}};
  if (spec.optimizer.states() > 0) {
    parts.push_back({StatePart::kM, adam ? "optim.m." : "optim.momentum.", wide});
  }
  if (spec.optimizer.states() > 1) parts.push_back({StatePart::kV, "optim.v.", wide});
  if (dtype == DType::kBF16) parts.push_back({StatePart::kMaster, "optim.rest.", StoredType::kI16});
  if (dtype == DType::kF16) parts.push_back({StatePart::kMaster, "optim.master.", wide});
  return parts;
}

// The box of elements [row, row + rows) x [col, col + cols) of a tensor, which may be a vector.
Box box_of(const LogicalTensor& tensor, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  if (tensor.shape.size() == 1) return {{col}, {cols}};
  return {{row, col}, {rows, cols}};
}

// What the part of a tensor that a rank's bucket has and a window of the bucket have in common: at
// most three boxes, because the window may begin and end inside rows. Places count from the begin
// of the window.
std::vector<Placed> boxes_in(const LogicalTensor& tensor, int64_t position,
                             const BucketWindow& window) {
  const Piece piece = piece_of(tensor, position);
  std::vector<Placed> placed;
  if (piece.num_rows == 0 || piece.num_cols == 0) return placed;
  // Rows with their padding form a flat range; the padding is cut off each box afterwards.
  const int64_t stride = piece.bucket_stride;
  const int64_t all = piece.num_rows * stride;
  const int64_t begin = std::clamp(window.begin - piece.bucket_offset, int64_t{0}, all);
  const int64_t end = std::clamp(window.end - piece.bucket_offset, int64_t{0}, all);
  if (begin >= end) return placed;
  const std::vector<int64_t> rows = {piece.num_rows, stride};
  for (const Box& box : boxes_of_range(rows, begin, end - begin)) {
    const int64_t cols = std::min(box.end(1), piece.num_cols) - box.offset[1];
    if (cols <= 0) continue;
    Placed one;
    one.box = box_of(tensor, piece.first_row + box.offset[0], box.shape[0],
                     piece.first_col + box.offset[1], cols);
    one.first = piece.bucket_offset + box.offset[0] * stride + box.offset[1] - window.begin;
    one.strides =
        tensor.shape.size() == 1 ? std::vector<int64_t>{1} : std::vector<int64_t>{stride, 1};
    placed.push_back(std::move(one));
  }
  return placed;
}

class Builder {
 public:
  explicit Builder(const StepGraph& step) : step_(step), parts_(parts_of(step.spec)) {}

  StateLayout run() {
    add_tensors();
    for (int rank = 0; rank < step_.mesh.world(); ++rank) {
      layout_.ranks.emplace_back();
      for (size_t b = 0; b < step_.layout.buckets.size(); ++b) add_bucket(rank, b);
    }
    return std::move(layout_);
  }

 private:
  void add_tensors() {
    for (size_t p = 0; p < parts_.size(); ++p) {
      for (const Bucket& bucket : step_.layout.buckets) {
        if (bucket.copy_of >= 0) continue;
        for_each_tensor(bucket, [&](const LogicalTensor& tensor) {
          index_[{p, tensor.name}] = layout_.tensors.size();
          layout_.tensors.push_back({parts_[p].prefix + tensor.name, parts_[p].type, tensor.shape});
        });
      }
    }
  }

  void add_bucket(int rank, size_t b) {
    const Bucket& bucket = step_.layout.buckets[b];
    if (!step_.holds(rank, bucket.unit) || step_.shares_weights(rank, b)) return;
    const int64_t position = split_position(step_, bucket, rank);
    const BucketWindow window = window_of(step_, bucket, kept_numel(step_, bucket), rank);
    for (size_t p = 0; p < parts_.size(); ++p) {
      for_each_tensor(bucket, [&](const LogicalTensor& tensor) {
        for (Placed& place : boxes_in(tensor, position, window)) {
          layout_.ranks.back().push_back(
              {index_.at({p, tensor.name}), b, parts_[p].part, std::move(place)});
        }
      });
    }
  }

  const StepGraph& step_;
  std::vector<PartKind> parts_;
  std::map<std::pair<size_t, std::string>, size_t> index_;  // of tensors
  StateLayout layout_;
};

}  // namespace

BufferId buffer_of(const BucketBuffers& buffers, StatePart part) {
  switch (part) {
    case StatePart::kWeights:
      return buffers.weights;
    case StatePart::kM:
      return buffers.m;
    case StatePart::kV:
      return buffers.v;
    case StatePart::kMaster:
      return buffers.master;
  }
  return kNoBuffer;
}

StateLayout lay_out_state(const StepGraph& step) { return Builder(step).run(); }

std::vector<StateBox> whole_weights(const StepGraph& step, const StateLayout& layout, int rank) {
  std::map<std::string, size_t> index;
  for (size_t t = 0; t < layout.tensors.size(); ++t) index[layout.tensors[t].name] = t;
  std::vector<StateBox> boxes;
  for (size_t b = 0; b < step.layout.buckets.size(); ++b) {
    const Bucket& bucket = step.layout.buckets[b];
    if (!step.holds(rank, bucket.unit) || step.shares_weights(rank, b)) continue;
    const int64_t position = split_position(step, bucket, rank);
    for_each_tensor(bucket, [&](const LogicalTensor& tensor) {
      for (Placed& place : boxes_in(tensor, position, {0, bucket.numel})) {
        boxes.push_back({index.at(tensor.name), b, StatePart::kWeights, std::move(place)});
      }
    });
  }
  return boxes;
}

std::vector<std::vector<HeldBox>> held_boxes(const StateLayout& layout) {
  std::vector<std::vector<HeldBox>> held;
  for (const std::vector<StateBox>& rank : layout.ranks) {
    held.emplace_back();
    for (const StateBox& box : rank) held.back().push_back({box.tensor, box.place.box});
  }
  return held;
}

SavePlan plan_save(const StateLayout& layout) {
  return plan_save(layout.tensors, held_boxes(layout));
}

}  // namespace tessera
