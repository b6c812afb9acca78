#include "checkpoint/hf_shards.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"

namespace tessera {
namespace {

int64_t bytes_of(const TensorHead& tensor) {
  const std::optional<int64_t> bytes = tensor_bytes(tensor.type, tensor.shape);
  TESSERA_CHECK(bytes.has_value(), "tensor '{}' has no size", tensor.name);
  return *bytes;
}

}  // namespace

std::vector<HfShard> deal_into_shards(const std::vector<TensorHead>& tensors, int64_t most_bytes) {
  std::vector<HfShard> shards(1);
  int64_t filled = 0;
  for (const TensorHead& tensor : tensors) {
    const int64_t bytes = bytes_of(tensor);
    if (!shards.back().tensors.empty() && filled + bytes > most_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().tensors.push_back(tensor);
    filled += bytes;
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].file = shards.size() == 1
                         ? "model.safetensors"
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  }
  return shards;
}

nlohmann::ordered_json index_of_shards(const std::vector<HfShard>& shards) {
  int64_t total = 0;
  std::map<std::string, std::string> file_of;  // sorted, as other programs write it
  for (const HfShard& shard : shards) {
    for (const TensorHead& tensor : shard.tensors) {
      total += bytes_of(tensor);
      file_of[tensor.name] = shard.file;
    }
  }
  return {{"metadata", {{"total_size", total}}}, {"weight_map", file_of}};
}

}  // namespace tessera
