// What a step with lanes ends with (base/lane_sums.h), on the CPU.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/context.h"
#include "kernels/optimizer.h"

namespace tessera::kernels {

// Adds the squares of all elements to the exact sum in `sums`, of `lanes` lanes.
void sum_squares_exactly(Context& ctx, std::span<const SquaredTensor> tensors, int64_t lanes,
                         Tensor& sums);
// Adds loss[i] to lane `first_lane` + i, and the number of unmasked labels to the tokens.
void add_lane_metrics(const Tensor& loss, const Tensor& labels, int64_t lanes, int64_t first_lane,
                      Tensor& sums);
void join_lanes(const Tensor& sums, int64_t lanes, Tensor& metrics);

}  // namespace tessera::kernels
