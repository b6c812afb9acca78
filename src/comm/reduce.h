// targets[t][i] = sources[0][i] op sources[1][i] op …, strictly in that order for every element, so
// that the bits depend on nothing but the values. bf16 and f16 compute in f32 and round once;
// integers wrap. A NaN in any source makes max and min NaN. kTreeSum and kTwinSum have an
// order of their own (comm/tree_sum.h).
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "collective/op.h"

namespace tessera {

enum class ReduceKernel : uint8_t {
  kInterleaved,  // every source and target advances one cache line at a time: fastest
  kBlocked,      // source after source into a small block: immune to address aliasing
  kStreamed,     // interleaved, and results go past the caches: targets start on a cache line
};

// Streams whose addresses agree modulo 2^28 evict each other from the first-level cache and slow
// the interleaved kernel down tenfold; then the blocked one is chosen. `result_bytes` is the size
// of all results of the call of which this is a part: those that do not stay in the caches are
// streamed, unless they overwrite what was just read.
ReduceKernel choose_reduce_kernel(std::span<const void* const> sources,
                                  std::span<void* const> targets, int64_t result_bytes = 0);

// A target may be one of the sources (the very same address) but may not overlap one otherwise.
// There must be at least one source. kMean sums and then divides by `mean_over` (0 or 1: it does
// not divide, for partial sums). One source is copied bit for bit unless it is divided.
void reduce_in_order(ReduceKernel kernel, ReduceOp op, DType dtype,
                     std::span<const void* const> sources, std::span<void* const> targets,
                     int64_t count, int mean_over = 0);
// With the kernel that choose_reduce_kernel gives.
void reduce_in_order(ReduceOp op, DType dtype, std::span<const void* const> sources,
                     std::span<void* const> targets, int64_t count, int mean_over = 0);

}  // namespace tessera
