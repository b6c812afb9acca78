// The weights of a checkpoint, for those who have no use for the states of an optimizer.
#pragma once

#include <string>

#include "train/session/weights.h"

namespace tessera {

// Whether `folder` is one checkpoint (not a folder of them).
bool is_checkpoint(const std::string& folder);

// Throws Error unless the checkpoint has exactly the model's tensors, with their shapes; and, while
// they are read, where a block is damaged (ExitCode::kCorrupt). One tensor is in memory at a time,
// so that ranks had better be few.
TensorSource checkpoint_weights(const std::string& folder, const ParameterLayout& layout);

// All of them as one safetensors file, under the names and in the layouts of Hugging Face, in the
// type that they were trained in.
void write_checkpoint_weights(const std::string& folder, const ParameterLayout& layout,
                              const std::string& path);

}  // namespace tessera
