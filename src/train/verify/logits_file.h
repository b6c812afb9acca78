// What a model says of given ids, for those who compare it with another program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/verify/model_folder.h"

namespace tessera {

// Lists of ids, all of one length: [[5, 1, 7], [2, 2, 9]]. Throws ConfigError for anything else.
std::vector<std::vector<int32_t>> read_ids(const std::string& file);

// One forward pass in f32 on one rank, as a safetensors file: "input_ids" [rows, length], int64,
// and "logits" [rows, length, vocab], float32. Throws ConfigError for ids that the model does not
// have and for more positions than it has, Error where the file cannot be written.
void write_logits(const ModelFolder& model, const std::vector<std::vector<int32_t>>& ids,
                  const std::string& path);

}  // namespace tessera
