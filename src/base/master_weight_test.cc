#include "base/master_weight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "base/philox.h"

namespace tessera {
namespace {

float joined(float master) {
  const uint16_t bits = BFloat16(master).bits;
  return master_weight(bits, rest_of_master(master, bits));
}

TEST(MasterWeight, ComesBackFromWeightAndRest) {
  for (uint64_t i = 0; i < 100000; ++i) {
    const auto value =
        static_cast<float>(normal_at(1, 2, i) * std::pow(10.0, static_cast<int>(i % 60) - 30));
    if ((std::bit_cast<uint32_t>(value) & 0xffffU) == 0x8000U) continue;  // half way
    EXPECT_EQ(std::bit_cast<uint32_t>(joined(value)), std::bit_cast<uint32_t>(value)) << value;
  }
  for (const float value : {0.0F, -0.0F, 1.0F, -1.0F, 1e-45F, -1e-45F, 3.4e38F, 1.00390637F,
                            std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(std::bit_cast<uint32_t>(joined(value)), std::bit_cast<uint32_t>(value)) << value;
  }
}

// Rounded to the even weight below, which is 32768 away; to the one above, -32768.
TEST(MasterWeight, HalfWayBetweenTwoWeightsItMovesByOneBitAtMost) {
  const auto down = std::bit_cast<float>(0x3f808000U);
  EXPECT_EQ(std::bit_cast<uint32_t>(joined(down)), 0x3f807fffU);
  const auto up = std::bit_cast<float>(0x3f818000U);
  EXPECT_EQ(std::bit_cast<uint32_t>(joined(up)), 0x3f818000U);
}

TEST(MasterWeight, NanStaysNan) {
  EXPECT_TRUE(std::isnan(joined(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(joined(std::bit_cast<float>(0x7f800001U))));
}

}  // namespace
}  // namespace tessera
