// The weights of a Hugging Face folder, as its files keep them: under their names, side by side,
// transposed.
#pragma once

#include <memory>
#include <string>

#include "train/weights/weights_on_disk.h"

namespace tessera {

// Throws Error unless the folder has exactly the model's tensors, with their shapes.
std::shared_ptr<const WeightsOnDisk> open_folder_weights(const std::string& folder,
                                                         const ParameterLayout& layout);

}  // namespace tessera
