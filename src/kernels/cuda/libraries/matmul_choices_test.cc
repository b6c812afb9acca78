#include "kernels/cuda/libraries/matmul_choices.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tessera::kernels::cuda {
namespace {

std::string fresh_path(const std::string& name) {
  const auto path = std::filesystem::path(::testing::TempDir()) / ("tessera_" + name);
  std::filesystem::remove(path);
  return path.string();
}

MatmulChoices::Algorithm algorithm(uint64_t first) { return {first, 0, ~uint64_t{0}, 3, 4}; }

TEST(CudaMatmulChoices, AreRememberedWithoutAFile) {
  MatmulChoices choices("a GPU", 130100);
  EXPECT_FALSE(choices.find("bf16 1x2x3"));
  choices.add("bf16 1x2x3", algorithm(7), 12.5);
  EXPECT_EQ(choices.find("bf16 1x2x3"), algorithm(7));
  EXPECT_FALSE(choices.find("bf16 1x2x4"));
}

TEST(CudaMatmulChoices, OutliveTheProcessThatMadeThem) {
  const std::string path = fresh_path("choices_outlive");
  MatmulChoices first("a GPU", 130100);
  first.open(path);
  first.add("one", algorithm(1), 1);
  first.add("two", algorithm(2), 2);
  first.add("one", algorithm(3), 0.5);
  MatmulChoices second("a GPU", 130100);
  second.open(path);
  EXPECT_EQ(second.find("one"), algorithm(3));
  EXPECT_EQ(second.find("two"), algorithm(2));
}

TEST(CudaMatmulChoices, OfOtherDevicesAndVersionsArePassedOver) {
  const std::string path = fresh_path("choices_others");
  MatmulChoices first("a GPU", 130100);
  first.open(path);
  first.add("one", algorithm(1), 1);
  MatmulChoices newer("a GPU", 130200), other("another GPU", 130100);
  newer.open(path);
  other.open(path);
  EXPECT_FALSE(newer.find("one"));
  EXPECT_FALSE(other.find("one"));
}

TEST(CudaMatmulChoices, DamagedLinesArePassedOver) {
  const std::string path = fresh_path("choices_damaged");
  MatmulChoices first("a GPU", 130100);
  first.open(path);
  first.add("one", algorithm(1), 1);
  std::ofstream(path, std::ios::app) << "a GPU\t130100\tone\tnot hexadecimal\t1\n"
                                     << "a GPU\t130100\ttwo\n\n"
                                     << "a GPU\t130100\tone\t0123";
  MatmulChoices second("a GPU", 130100);
  second.open(path);
  EXPECT_EQ(second.find("one"), algorithm(1));
  EXPECT_FALSE(second.find("two"));
}

}  // namespace
}  // namespace tessera::kernels::cuda
