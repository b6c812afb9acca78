// Weights in several files with an index, as Hugging Face folders have them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace tessera {

struct HfShard {
  std::string file;  // "model-00001-of-00003.safetensors", or "model.safetensors" where it is alone
  std::vector<TensorHead> tensors;
};

// In the given order, as many tensors to a file as have `most_bytes` together; a larger one has a
// file of its own.
std::vector<HfShard> deal_into_shards(const std::vector<TensorHead>& tensors, int64_t most_bytes);

// What model.safetensors.index.json says of them.
nlohmann::ordered_json index_of_shards(const std::vector<HfShard>& shards);

}  // namespace tessera
