// Sizes and tolerances of tests of row-wise bodies.
#pragma once

#include <utility>
#include <vector>

#include "kernels/testing/cuda_support.h"

namespace tessera::kernels::cuda::testing {

// Rows x columns: odd ones, those of each way to share a row out, and more rows than a block sums.
inline const std::vector<std::pair<int64_t, int64_t>> kRowSizes = {
    {1, 1},  {3, 7},    {1, 8},    {5, 65},   {129, 130}, {131, 64},  {1000, 136},
    {9, 33}, {33, 768}, {5, 1600}, {3, 2048}, {2, 4096},  {2, 16384}, {2, 33000}};

// Of sums over rows, which are in the accumulate type.
inline double sum_tolerance(DType type) { return type == DType::kF64 ? 1e-12 : 2e-5; }

}  // namespace tessera::kernels::cuda::testing
