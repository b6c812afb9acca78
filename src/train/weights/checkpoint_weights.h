// The weights of a checkpoint, for those who have no use for the states of an optimizer.
#pragma once

#include <memory>
#include <string>

#include "train/weights/weights_on_disk.h"

namespace tessera {

// Whether `folder` is one checkpoint (not a folder of them).
bool is_checkpoint(const std::string& folder);

// Throws Error unless the checkpoint has exactly the model's tensors, with their shapes; and, while
// they are read, where a block is damaged (ExitCode::kCorrupt).
std::shared_ptr<const WeightsOnDisk> open_checkpoint_weights(const std::string& folder,
                                                             const ParameterLayout& layout);

// All of them as one safetensors file, under the names and in the layouts of Hugging Face, in the
// type that they were trained in.
void write_checkpoint_weights(const std::string& folder, const ParameterLayout& layout,
                              const std::string& path);

}  // namespace tessera
