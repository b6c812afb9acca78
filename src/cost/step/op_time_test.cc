#include "cost/step/op_time.h"

#include <gtest/gtest.h>

#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"

namespace tessera {
namespace {

class OpTimeTest : public ::testing::Test {
 protected:
  DeviceSpec device_ = find_device("a100-80");
  EngineNumbers engine_ = find_engine("megatron").numbers;
};

double rate(const DeviceSpec& device, int64_t m, int64_t n, int64_t k) {
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return flops / product_s(device, find_engine("megatron").numbers, MathType::kF16, m, n, k);
}

TEST_F(OpTimeTest, AHugeProductReachesItsShareOfThePeak) {
  const double share = rate(device_, 16384, 16384, 65536) / 312e12;
  EXPECT_LT(share, device_.product_efficiency[2].value);
  EXPECT_GT(share, 0.97 * device_.product_efficiency[2].value);
}

TEST_F(OpTimeTest, ASmallInnerSizeCostsItsFill) {
  EXPECT_GT(rate(device_, 8192, 8192, 8192), 1.2 * rate(device_, 8192, 8192, 512));
}

// 108 multiprocessors, tiles of 256 x 128: 108 tiles are one wave, 109 begin a second.
TEST_F(OpTimeTest, ATileMoreThanAWaveCostsMoreThanATile) {
  const double wave = product_s(device_, engine_, MathType::kF16, 256 * 9, 128 * 12, 4096);
  const double more = product_s(device_, engine_, MathType::kF16, 256 * 9, 128 * 13, 4096);
  EXPECT_GT(more / wave, 1.1);
  const double two = product_s(device_, engine_, MathType::kF16, 256 * 9, 128 * 24, 4096);
  EXPECT_LE(more, two);
}

TEST_F(OpTimeTest, OddSizesAreSlow) {
  EXPECT_GT(product_s(device_, engine_, MathType::kF16, 2048, 2048, 108),
            4 * product_s(device_, engine_, MathType::kF16, 2048, 2048, 104));
}

TEST_F(OpTimeTest, NothingIsFasterThanMemoryOrALaunch) {
  const double bytes = 2.0 * (4096.0 * 4096 + 2 * 16.0 * 4096);
  EXPECT_GE(product_s(device_, engine_, MathType::kF16, 16, 4096, 4096),
            bytes / device_.memory_bandwidth.value);
  EXPECT_GE(product_s(device_, engine_, MathType::kF16, 8, 8, 8), device_.launch_s.value);
  EXPECT_GE(memory_s(device_, 1), device_.launch_s.value);
  EXPECT_EQ(product_s(device_, engine_, MathType::kF16, 0, 8, 8), 0);
  EXPECT_EQ(memory_s(device_, 0), 0);
}

TEST_F(OpTimeTest, UnfusedAttentionPaysForItsScores) {
  const AttentionSizes sizes{8 * 12, 2048, 2048, 128, 128};
  const AttentionTime flash = flash_attention_s(device_, engine_, sizes);
  const AttentionTime unfused = unfused_attention_s(device_, engine_, sizes);
  EXPECT_GT(unfused.forward_s, 2 * flash.forward_s);
  const double traffic = 11.0 * 96 * 2048 * 2048 / device_.memory_bandwidth.value;
  EXPECT_GT(unfused.forward_s, traffic);
}

}  // namespace
}  // namespace tessera
