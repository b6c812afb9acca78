// Sizes and tolerances of tests of row-wise bodies, and what they have in common.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "kernels/testing/cuda_support.h"

namespace tessera::kernels::cuda::testing {

using RowSizes = std::vector<std::pair<int64_t, int64_t>>;

// Rows x columns: odd ones, those of each way to share a row out, and more rows than a block sums.
inline const RowSizes kRowSizes = {{1, 1},    {3, 7},      {1, 8},     {5, 65},   {129, 130},
                                   {131, 64}, {1000, 136}, {9, 33},    {33, 768}, {5, 1600},
                                   {3, 2048}, {2, 4096},   {2, 16384}, {2, 33000}};

// The tolerance of sums over rows, which are in the accumulate type.
inline double sum_tolerance(DType type) { return type == DType::kF64 ? 1e-12 : 2e-5; }

// Calls f(type, tokens, width) for every size in every type.
template <typename F>
void for_each_size(const RowSizes& sizes, const F& f) {
  for_each_case(sizes, [&](const std::pair<int64_t, int64_t>& size, DType type) {
    SCOPED_TRACE(fmt::format("{} x {} of {}", size.first, size.second, name_of(type)));
    f(type, size.first, size.second);
  });
}

// Rows of tokens that have a place in a sequence: `tokens` of them from `first_token` on.
struct PlacedRows {
  SequenceRows rows;
  int64_t tokens, first_token, width;
};

// A gradient that is summed over rows, beside activations of `type`: what on_cpu(sums, accumulate)
// and on_gpu(sums, accumulate) give, first in place of what was there and then added to it, and
// that the GPU repeats its bits.
template <typename OnCpu, typename OnTheGpu>
void expect_same_sums(DType type, int64_t width, const OnCpu& on_cpu, const OnTheGpu& on_gpu) {
  Array sums(accumulate_type(type), {width});
  OnGpu sums_gpu(sums), again(sums);
  for (const bool accumulate : {false, true}) {
    on_cpu(sums, accumulate);
    on_gpu(sums_gpu, accumulate);
    expect_same(sums_gpu, sums, sum_tolerance(type));
    on_gpu(again, accumulate);
    EXPECT_TRUE(again.get().same_bits(sums_gpu.get()));
  }
}

}  // namespace tessera::kernels::cuda::testing
