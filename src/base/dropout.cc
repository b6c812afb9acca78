#include "base/dropout.h"

namespace tessera {

std::array<uint32_t, 2> dropout_key(uint64_t seed, int64_t step, int64_t unit, DropoutSite site) {
  const auto low = [](uint64_t v) { return static_cast<uint32_t>(v); };
  const auto high = [](uint64_t v) { return static_cast<uint32_t>(v >> 32); };
  const auto number = static_cast<uint64_t>(step);
  const std::array<uint32_t, 4> words =
      philox({low(number), high(number), static_cast<uint32_t>(unit), static_cast<uint32_t>(site)},
             {low(seed), high(seed)});
  return {words[0], words[1]};
}

}  // namespace tessera
