#include "cost/step/estimate.h"

namespace tessera {

std::string_view name_of(MemoryPart part) {
  constexpr std::array<std::string_view, kNumMemoryParts> kNames = {
      "parameters", "gradients", "optimizer", "gathered", "activations", "working", "buffers"};
  return kNames.at(static_cast<size_t>(part));
}

std::string_view name_of(CommAxis axis) {
  constexpr std::array<std::string_view, kNumCommAxes> kNames = {"tp", "cp", "ep", "pp", "dp"};
  return kNames.at(static_cast<size_t>(axis));
}

int64_t StageMemory::total() const {
  int64_t sum = 0;
  for (const int64_t part : bytes) sum += part;
  return sum;
}

}  // namespace tessera
