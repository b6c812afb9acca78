// How reference values name and store the tensors of a model.
#pragma once

#include <string>

#include "compile/model/parameters.h"

namespace tessera {

// Where a file of reference values keeps what a model file keeps as a tensor of its own.
struct RecordedTensor {
  std::string name;
  Shape shape;        // of the recorded tensor
  int64_t first = 0;  // element that is the first one of the model file's tensor
};

// The experts of a layer are recorded as two tensors, gate_up_proj [E, 2F, H] (gate first) and
// down_proj [E, H, F]; everything else has the name and shape it has in a model file.
RecordedTensor recorded_tensor(const LogicalTensor& tensor, const ModelSpec& model);

}  // namespace tessera
