// What two checkpoints have different, tensor by tensor, however each was cut.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/store/checkpoint_folder.h"
#include "checkpoint/store/file_ops.h"

namespace tessera {

struct StoredCheckpoint {
  const FileOps& files;
  const CheckpointFolder& checkpoint;
};

struct TensorDifference {
  std::string tensor;
  // "only in A", "only in B", "F32 [2] in A, F32 [3] in B"; empty: the values alone differ.
  std::string kind;
  int64_t elements = 0;   // that the tensor has
  int64_t different = 0;  // that are not the same bits
  double largest = 0;     // absolute difference of two numbers; NaN where one is none
};

struct CheckpointDifference {
  std::vector<TensorDifference> tensors;  // by name; those without a difference are left out
  std::vector<std::string> state;         // keys of state.json with other values
  int64_t same_tensors = 0;
  [[nodiscard]] bool equal() const { return tensors.empty(); }
};

// All values of both are read, a piece of one tensor at a time. Throws as read_boxes() does.
CheckpointDifference compare_checkpoints(const StoredCheckpoint& a, const StoredCheckpoint& b);

}  // namespace tessera
