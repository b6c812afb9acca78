// Which part of a tensor each rank holds, read from the types of the graph, the layout of the
// parameters and the buffers of the Programs: what the picture of placements draws.
#pragma once

#include <string>
#include <vector>

#include "compile/step.h"

namespace tessera {

struct Rect {
  int64_t first_row = 0, num_rows = 0, first_col = 0, num_cols = 0;
  [[nodiscard]] int64_t elements() const { return num_rows * num_cols; }
  friend bool operator==(const Rect&, const Rect&) = default;
};

// A whole tensor as rows and columns, and the rectangles of it that each rank holds.
struct HeldTensor {
  std::string label;   // "residual stream"
  std::string detail;  // its type, or where it is kept
  ArenaKind category = ArenaKind::kActivations;
  int64_t rows = 0, cols = 1;
  bool partial = false;  // ranks hold partial sums
  std::vector<std::vector<Rect>> by_rank;

  [[nodiscard]] int64_t elements_of(int rank) const;
};

// "f32 512x256 dp:S(0) tp:I": the placements on all axes of more than one rank.
std::string type_text(const TensorType& type, const Mesh& mesh);

// A value of one micro-batch of all replicas, [tokens, columns]; rows are in order of position,
// also where cp deals them in chunks.
HeldTensor held_value(const StepGraph& step, const std::string& label, const TensorType& type);

// A weight of the first block as kernels read it. Tensors that are stacked in one weight (gate and
// up, experts) stand below each other.
HeldTensor held_weight(const StepGraph& step, const std::string& weight, const std::string& label);

// What stays of a bucket between uses, drawn as one row: the part of each rank that splits its
// weights after the other. Of the first block that each rank holds.
enum class BucketState { kWeights, kGradient, kOptimizer };
HeldTensor held_bucket(const StepGraph& step, const std::vector<Program>& programs,
                       const Bucket& bucket, BucketState state);

// A handful that tells all splits apart: of the first block of every rank, and with a pipeline the
// units.
std::vector<HeldTensor> held_tensors(const StepGraph& step, const std::vector<Program>& programs);

}  // namespace tessera
