#include "tensor/cpu_level.h"

#include <gtest/gtest.h>

#include "base/error.h"

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
