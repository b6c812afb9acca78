// Test support: how often this thread has asked for memory (count_allocations_test.cc counts).
#pragma once

#include <cstdint>

namespace tessera::testing {

extern thread_local int64_t num_allocations;

// What the thread allocates while this lives does not count.
class UncountedAllocations {
 public:
  UncountedAllocations() = default;
  ~UncountedAllocations() { num_allocations = before_; }
  UncountedAllocations(const UncountedAllocations&) = delete;
  UncountedAllocations& operator=(const UncountedAllocations&) = delete;

 private:
  int64_t before_ = num_allocations;
};

}  // namespace tessera::testing
