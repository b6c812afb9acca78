// targets[t][i] = sources[0][i] + sources[1][i] + …, strictly in that order for every element, so
// that the bits depend on nothing but the values. bf16 adds in f32 and rounds once; i32 wraps.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace tessera {

enum class SumKernel : uint8_t {
  kInterleaved,  // every source and target advances one cache line at a time: fastest
  kBlocked,      // source after source into a small block: immune to address aliasing
};

// Streams whose addresses agree modulo 2^28 evict each other from the first-level cache and slow
// the interleaved kernel down tenfold; then the blocked one is chosen.
SumKernel choose_sum_kernel(std::span<const void* const> sources, std::span<void* const> targets);

// A target may be one of the sources (the very same address) but may not overlap one otherwise.
// There must be at least one source. A single source is copied bit for bit.
void sum_in_order(SumKernel kernel, DType dtype, std::span<const void* const> sources,
                  std::span<void* const> targets, int64_t count);

}  // namespace tessera
