#include "train/verify/golden_names.h"

#include "base/error.h"

namespace tessera {

RecordedTensor recorded_tensor(const LogicalTensor& tensor, const ModelSpec& model) {
  const std::string layer_part = ".block_sparse_moe.";
  const size_t at = tensor.name.find(layer_part);
  if (at == std::string::npos) return {tensor.stored.name, tensor.stored.shape, 0};
  const std::string layer = tensor.name.substr(0, at);
  const std::string rest = tensor.name.substr(at + layer_part.size());  // "experts.3.w1.weight"
  const std::string experts = "experts.";
  if (rest.compare(0, experts.size(), experts) != 0) {
    return {layer + ".mlp." + rest, tensor.shape, 0};
  }
  size_t digits = 0;
  const int64_t expert = std::stoll(rest.substr(experts.size()), &digits);
  const std::string which = rest.substr(experts.size() + digits + 1);
  const int64_t size = numel(tensor.shape);
  if (which == "w2.weight") {
    return {layer + ".mlp.experts.down_proj",
            {model.experts, tensor.shape[0], tensor.shape[1]},
            expert * size};
  }
  TESSERA_CHECK(which == "w1.weight" || which == "w3.weight", "expert tensor '{}'", tensor.name);
  return {layer + ".mlp.experts.gate_up_proj",
          {model.experts, 2 * tensor.shape[0], tensor.shape[1]},
          (2 * expert + (which == "w3.weight" ? 1 : 0)) * size};
}

}  // namespace tessera
