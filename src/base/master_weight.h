// The master copy of a bf16 weight. The weight is the upper half of the f32 master, rounded, so the
// master is the weight's bits and a signed rest of 16 bits:
//   bits of the master = (bits of the weight << 16) + rest
// Two bytes a weight instead of four. A master half way between two weights may need a rest of
// 32768: it becomes the f32 number before it.
#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.h"

namespace tessera {

TESSERA_HD inline float master_weight(uint16_t weight_bits, int16_t rest) {
  const uint32_t bits = (static_cast<uint32_t>(weight_bits) << 16) + static_cast<uint32_t>(rest);
  return std::bit_cast<float>(bits);
}

// `weight_bits`: of `master`, rounded to nearest even.
TESSERA_HD inline int16_t rest_of_master(float master, uint16_t weight_bits) {
  const uint32_t rest =
      std::bit_cast<uint32_t>(master) - (static_cast<uint32_t>(weight_bits) << 16);
  return static_cast<int16_t>(rest == 0x8000U ? 0x7fffU : rest);
}

}  // namespace tessera
