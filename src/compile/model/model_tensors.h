// The tensors of a model: shapes, and the names and layouts that its family gives them on disk.
#pragma once

#include <cstdint>
#include <string>

#include "graph/type.h"
#include "spec/run_spec.h"

namespace tessera {

// Where a Hugging Face file keeps a tensor: element (row, col) is element
// offset + row * row_step + col * col_step of the tensor `name` there.
struct StoredTensor {
  std::string name;
  Shape shape;
  int64_t offset = 0;
  int64_t row_step = 0;
  int64_t col_step = 1;
};

enum class Init : uint8_t {
  kNormal,
  kResidual,  // back into the residual stream: normal, scaled down by sqrt(2 * layers)
  kOnes,
  kZeros,
};

// A tensor as training knows it: matrices are [out, in].
struct LogicalTensor {
  std::string name;
  Shape shape;               // without padding
  int split_dim = -1;        // dimension that tp splits, or -1
  int64_t local_size = 0;    // of the split dimension on one rank, padding included
  int64_t local_offset = 0;  // first element inside the bucket of one tp rank
  int order = 0;             // place in the model, the same on every mesh
  int64_t holder = -1;       // of an expert: the one place among ep that has all of it
  // A key's bias without rotation adds the same to all scores of a query, which softmax does not
  // see: its gradient is zero but for rounding.
  bool unseen = false;
  StoredTensor stored;
  Init init = Init::kNormal;

  [[nodiscard]] int64_t cols() const { return shape.size() == 2 ? shape[1] : shape[0]; }
  [[nodiscard]] int64_t rows() const { return shape.size() == 2 ? shape[0] : 1; }
};

// A tensor that is stored as training knows it.
LogicalTensor named_tensor(const std::string& name, const Shape& shape);

enum class ModelPart : uint8_t {
  kEmbed,
  kPositions,
  kAttnNorm,
  kQuery,
  kKey,
  kValue,
  kQueryNorm,
  kKeyNorm,
  kAttnOut,
  kMlpNorm,
  kGate,
  kUp,
  kDown,
  kFinalNorm,
  kHead,
};

// `layer` counts for the parts of a block only.
LogicalTensor weight_of(const ModelSpec& model, ModelPart part, int64_t layer);
LogicalTensor bias_of(const ModelSpec& model, ModelPart part, int64_t layer);

}  // namespace tessera
