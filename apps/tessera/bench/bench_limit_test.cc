#include "bench/bench_limit.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(BenchLimitTest, ProbesEveryShape) {
  for (const int threads : {1, 2}) {
    for (const bool in_place : {false, true}) {
      for (const int sources : {1, 3}) {
        const MemoryProbe probe{.sources = sources,
                                .targets = in_place ? sources : 2,
                                .in_place = in_place,
                                .threads = threads,
                                .bytes_per_thread = 1 << 20};
        EXPECT_GT(memory_rate(probe), 0) << threads << " threads, " << sources << " sources";
      }
    }
  }
}

TEST(BenchLimitTest, ProbesReadsAlone) {
  const MemoryProbe probe{.targets = 0, .threads = 2, .bytes_per_thread = 1 << 20};
  EXPECT_GT(memory_rate(probe), 0);
}

TEST(BenchLimitTest, OnlyWorkFarLargerThanTheCachesIsBoundByMemory) {
  const int64_t cache = largest_cache_bytes();
  EXPECT_GE(cache, 1 << 20);
  EXPECT_FALSE(is_memory_bound({.sources = 1, .targets = 1, .stream_bytes = cache}));
  EXPECT_TRUE(is_memory_bound({.sources = 1, .targets = 1, .stream_bytes = 2 * cache}));
  EXPECT_FALSE(
      is_memory_bound({.sources = 2, .targets = 2, .in_place = true, .stream_bytes = cache}))
      << "only two streams are distinct";
  const MemoryProbe probe = probe_for({.sources = 2, .targets = 2, .in_place = true}, /*ranks=*/64);
  EXPECT_LE(probe.threads, 64);
  EXPECT_GE(probe.threads * probe.bytes_per_thread, 4 * cache);
}

TEST(BenchLimitTest, ADriftingRateIsTheMeanOfBothEnds) {
  EXPECT_DOUBLE_EQ((MemoryLimit{.before = 30e9, .after = 40e9}).rate(), 35e9);
}

}  // namespace
}  // namespace tessera
