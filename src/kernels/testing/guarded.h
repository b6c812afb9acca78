// Elements that end right before, or start right after, memory that must not be touched: reading
// past an operand ends the test with a fault.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace tessera::kernels::testing {

template <typename T>
class Guarded {
 public:
  Guarded(int64_t count, bool at_end) {
    const auto bytes = static_cast<size_t>(count) * sizeof(T);
    const size_t middle = (bytes + kPage - 1) / kPage * kPage;
    mapped_ = middle + 2 * kGuard;
    void* base =
        mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(base, MAP_FAILED);
    base_ = static_cast<std::byte*>(base);
    EXPECT_EQ(mprotect(base_ + kGuard, middle, PROT_READ | PROT_WRITE), 0);
    data_ = reinterpret_cast<T*>(base_ + kGuard + (at_end ? middle - bytes : 0));
    for (int64_t i = 0; i < count; ++i) data_[i] = static_cast<T>(static_cast<float>(i % 7 - 3));
  }
  ~Guarded() { munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  T* data() { return data_; }

 private:
  static constexpr size_t kPage = 4096, kGuard = 64 * kPage;
  std::byte* base_ = nullptr;
  size_t mapped_ = 0;
  T* data_ = nullptr;
};

}  // namespace tessera::kernels::testing
