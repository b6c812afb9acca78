#include "tensor/cpu_level.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tensor/cpu_tiles.h"

namespace tessera {
namespace {

// Leaves the process as it was.
class CpuLevelTest : public ::testing::Test {
 protected:
  ~CpuLevelTest() override { use_cpu_level(before_ == CpuLevel::kBase ? "" : name_of(before_)); }

 private:
  CpuLevel before_ = cpu_level();
};

TEST_F(CpuLevelTest, ALowerLevelIsTakenAndTheHighestIsTheDefault) {
  if (highest_cpu_level() == CpuLevel::kBase) GTEST_SKIP() << "another kind of CPU";
  use_cpu_level("v3");
  EXPECT_EQ(cpu_level(), CpuLevel::kV3);
  use_cpu_level("");
  EXPECT_EQ(cpu_level(), highest_cpu_level());
}

TEST_F(CpuLevelTest, WhatTheCpuLacksIsRefused) {
  if (highest_cpu_level() >= CpuLevel::kV4) GTEST_SKIP() << "this CPU has all levels";
  EXPECT_THROW(use_cpu_level("v4"), ConfigError);
}

TEST_F(CpuLevelTest, TilesThatAreNotUsableAreRefusedWithTheReason) {
  if (cpu_tiles().usable) {
    EXPECT_EQ(cpu_tiles().why_not, "");
    EXPECT_EQ(highest_cpu_level(), CpuLevel::kV4Amx);
    return;
  }
  EXPECT_NE(cpu_tiles().why_not, "");
  EXPECT_LT(highest_cpu_level(), CpuLevel::kV4Amx);
  try {
    use_cpu_level("v4-amx");
    FAIL() << "v4-amx was taken";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("TESSERA_CPU_LEVEL is 'v4-amx', but this CPU has"), std::string::npos);
    if (highest_cpu_level() == CpuLevel::kV4Bf16) {
      EXPECT_NE(text.find("at most: " + cpu_tiles().why_not), std::string::npos) << text;
    }
  }
}

TEST_F(CpuLevelTest, AnotherWordIsRefusedWithThoseThereAre) {
  try {
    use_cpu_level("v5");
    FAIL() << "v5 was taken";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("'v5': use v3 (AVX2), v4 (AVX-512), v4-bf16"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tessera
