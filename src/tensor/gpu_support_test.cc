#include "tensor/gpu_support.h"

#include <gtest/gtest.h>

namespace tessera::cuda {
namespace {

GpuAnswers h200() {
  return {.driver_version = 13000,
          .runtime_version = 13000,
          .count_error = "",
          .count = 1,
          .device = 0,
          .name = "NVIDIA H200",
          .major = 9,
          .minor = 0,
          .built_for = "90-real"};
}

TEST(GpuSupportTest, AFittingGpuHasNoObstacle) { EXPECT_EQ(why_not(h200()), ""); }

TEST(GpuSupportTest, NoDriver) {
  GpuAnswers answers = h200();
  answers.driver_version = 0;
  answers.count_error = "CUDA driver version is insufficient (cudaErrorInsufficientDriver)";
  EXPECT_EQ(why_not(answers), "this machine has no NVIDIA driver");
}

TEST(GpuSupportTest, AnOldDriver) {
  GpuAnswers answers = h200();
  answers.driver_version = 12040;
  answers.count_error = "CUDA driver version is insufficient (cudaErrorInsufficientDriver)";
  EXPECT_EQ(why_not(answers),
            "the driver serves CUDA 12.4, this program needs at least 13.0: update the driver");
}

TEST(GpuSupportTest, NoDevice) {
  GpuAnswers answers = h200();
  answers.count = 0;
  answers.count_error = "no CUDA-capable device is detected (cudaErrorNoDevice)";
  EXPECT_EQ(why_not(answers),
            "there is a driver, but no GPU can be seen (no CUDA-capable device is detected "
            "(cudaErrorNoDevice)): look at nvidia-smi and at CUDA_VISIBLE_DEVICES");
}

TEST(GpuSupportTest, NoSuchDevice) {
  GpuAnswers answers = h200();
  answers.device = 3;
  EXPECT_EQ(why_not(answers), "there is no GPU 3, this machine has 1");
}

TEST(GpuSupportTest, AnotherArchitectureThanItWasBuiltFor) {
  GpuAnswers answers = h200();
  answers.name = "NVIDIA B200";
  answers.major = 10;
  EXPECT_EQ(why_not(answers),
            "NVIDIA B200 has compute capability 10.0, this program was built for 90-real: "
            "configure it with -DTESSERA_CUDA_ARCHITECTURES=100 and build it again");
  answers.built_for = "90-real,80-virtual";
  EXPECT_EQ(why_not(answers), "");
}

TEST(GpuSupportTest, AnOldArchitecture) {
  GpuAnswers answers = h200();
  answers.name = "Tesla V100";
  answers.major = 7;
  answers.built_for = "70";
  EXPECT_EQ(why_not(answers),
            "Tesla V100 has compute capability 7.0, this program needs at least 8.0");
}

TEST(GpuSupportTest, WhereCodeRuns) {
  EXPECT_TRUE(runs_on("80-real", 8, 6)) << "machine code of a major runs on later minors";
  EXPECT_FALSE(runs_on("86-real", 8, 0));
  EXPECT_FALSE(runs_on("80-real", 9, 0));
  EXPECT_TRUE(runs_on("80-virtual", 9, 0));
  EXPECT_TRUE(runs_on("80", 12, 0));
  EXPECT_TRUE(runs_on("90a", 9, 0));
  EXPECT_FALSE(runs_on("90a-real", 10, 0));
  EXPECT_TRUE(runs_on("100-real", 10, 3));
  EXPECT_TRUE(runs_on("80-real,90-real", 9, 0));
  EXPECT_TRUE(runs_on("all-major", 12, 1));
  EXPECT_FALSE(runs_on("", 9, 0));
}

}  // namespace
}  // namespace tessera::cuda
