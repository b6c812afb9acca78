#include "train/session/system_memory.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace tessera {
namespace {

TEST(SystemMemoryTest, CountsAProcessOnce) {
  const std::vector<SystemMemory> ranks = {{700, 0, 0}, {700, 0, 0}};
  nlohmann::ordered_json threads, processes;
  add_system_memory(ranks, /*one_process=*/true, threads);
  add_system_memory(ranks, /*one_process=*/false, processes);
  EXPECT_EQ(threads.at("resident_bytes"), 700);
  EXPECT_EQ(processes.at("resident_bytes"), 1400);
  EXPECT_EQ(processes.at("peak_resident_bytes"), 700);
  EXPECT_FALSE(threads.contains("gpu_used_bytes"));
}

TEST(SystemMemoryTest, ThreadsThatShareAGpuSeeEachOthersMemory) {
  const std::vector<SystemMemory> ranks = {{1, 1000, 400}, {1, 800, 300}};
  nlohmann::ordered_json threads, processes;
  add_system_memory(ranks, /*one_process=*/true, threads);
  add_system_memory(ranks, /*one_process=*/false, processes);
  EXPECT_EQ(threads.at("gpu_used_bytes"), 700);
  EXPECT_EQ(processes.at("gpu_used_bytes"), 1100);
}

TEST(SystemMemoryTest, SeesPagesThatAreTouched) {
  const int64_t before = peak_resident_bytes();
  const std::vector<char> touched(size_t{64} << 20, 1);
  ASSERT_EQ(touched.back(), 1);
  EXPECT_GE(peak_resident_bytes(), before);
  EXPECT_GE(peak_resident_bytes(), int64_t{64} << 20);
}

}  // namespace
}  // namespace tessera
