#include "comm/testing/count_allocations.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <vector>

namespace tessera::testing {
thread_local int64_t num_allocations = 0;
}  // namespace tessera::testing

namespace {

void* counted(void* block) {
  ++tessera::testing::num_allocations;
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

// Not inlined, or the compiler takes malloc and delete for a mismatched pair.
[[gnu::noinline]] void* operator new(size_t size) {
  return counted(std::malloc(size == 0 ? 1 : size));
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment) {
  const auto align = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(align, (size + align - 1) / align * align));
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t, std::align_val_t) noexcept {
  std::free(block);
}

namespace tessera::testing {
namespace {

TEST(CountAllocationsTest, Counts) {
  const int64_t before = num_allocations;
  const std::vector<float> control(1);
  EXPECT_EQ(num_allocations, before + 1);
  {
    const UncountedAllocations uncounted;
    const std::vector<float> more(1);
  }
  EXPECT_EQ(num_allocations, before + 1);
}

}  // namespace
}  // namespace tessera::testing
