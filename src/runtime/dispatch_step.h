// Kernels of the optimizer step and plain movement, and the ops that have no kernel: dispatcher
// rows.
#pragma once

#include <array>
#include <span>

#include "base/error.h"
#include "kernels/lane_sums.h"
#include "runtime/kernel_call.h"

namespace tessera::dispatch {

inline void sum_squares(const KernelCall& c) {
  std::array<kernels::SquaredTensor, kMostGroupedBuckets> squared;
  const std::vector<BucketArgs>& buckets = c.args().buckets;
  for (size_t b = 0; b < buckets.size(); ++b) {
    squared.at(b) = {c.in(b), kMetricsHead + buckets[b].index};
  }
  const int64_t lanes = c.args().lanes;
  if (lanes > 0) {
    return kernels::sum_squares_exactly(c.context, std::span(squared).first(buckets.size()), lanes,
                                        c.out(0));
  }
  kernels::sum_squares(c.context, std::span(squared).first(buckets.size()), c.out(0));
}

using Update = void(kernels::Context&, std::span<const kernels::UpdatedTensors>, const Tensor&,
                    const UpdatePlace&);

template <Update* update>
void update_weights(const KernelCall& c) {
  std::array<kernels::UpdatedTensors, kMostGroupedBuckets> updated;
  const KernelArgs& args = c.args();
  const size_t buckets = args.buckets.size();
  const size_t outputs = c.instruction.outputs.size() / buckets;  // of each
  for (size_t b = 0; b < buckets; ++b) {
    const BufferId* output = &c.instruction.outputs[b * outputs];
    const auto state = [&](int64_t s) { return s <= args.states ? c.at(output[s]) : Tensor{}; };
    const BufferId master = has_master(c.instruction) ? output[1 + args.states] : output[0];
    updated.at(b) = {c.at(master), state(1),        state(2),
                     c.in(b),      c.at(output[0]), args.buckets[b].decay};
  }
  update(c.context, std::span(updated).first(buckets), c.at(c.instruction.inputs.back()),
         {args.update, args.updates});
}

inline void metrics(const KernelCall& c) {
  if (!c.args().owner) return;
  if (c.args().lanes > 0) {
    return kernels::add_lane_metrics(c.in(0), c.in(1), c.args().lanes, c.args().first_lane,
                                     c.out(0));
  }
  kernels::add_metrics(c.context, c.in(0), c.in(1), c.out(0), c.args().updates);
}

inline void copy(const KernelCall& c) { kernels::copy(c.context, c.in(0), c.out(0)); }

// It communicates, or only says what lies where.
inline void no_kernel(const KernelCall& c) {
  TESSERA_CHECK(false, "{} '{}' is no kernel", name_of(c.instruction.op), c.instruction.name);
}

inline constexpr KernelRow kStepKernels[] = {
    {OpKind::kSumSquares, sum_squares},
    {OpKind::kMetrics, metrics},
    {OpKind::kCountTokens,
     [](const KernelCall& c) { kernels::count_tokens(c.context, c.in(0), c.out(0)); }},
    {OpKind::kJoinLanes,
     [](const KernelCall& c) { kernels::join_lanes(c.in(0), c.args().lanes, c.out(0)); }},
    {OpKind::kAdamW, update_weights<kernels::adamw>},
    {OpKind::kSgd, update_weights<kernels::sgd>},

    {OpKind::kZero, [](const KernelCall& c) { kernels::fill_zero(c.context, c.out(0)); }},
    {OpKind::kConvert, copy},
    {OpKind::kCopy, copy},
    {OpKind::kAccumulate,
     [](const KernelCall& c) { kernels::accumulate_into(c.context, c.in(0), c.out(0)); }},
    {OpKind::kSplitColumns,
     [](const KernelCall& c) {
       kernels::split_columns(c.context, c.in(0), c.out(0), c.args().column_groups);
     }},
    {OpKind::kJoinColumns,
     [](const KernelCall& c) {
       kernels::join_columns(c.context, c.in(0), c.out(0), c.args().column_groups);
     }},

    {OpKind::kInput, no_kernel},
    {OpKind::kParameter, no_kernel},
    {OpKind::kCache, no_kernel},
    {OpKind::kViews, no_kernel},
    {OpKind::kPack, no_kernel},
    {OpKind::kSlice, no_kernel},
    {OpKind::kConcat, no_kernel},
    {OpKind::kCast, no_kernel},
    {OpKind::kShift, no_kernel},
    {OpKind::kTieSum, no_kernel},
    {OpKind::kSend, no_kernel},
    {OpKind::kReceive, no_kernel},
};

}  // namespace tessera::dispatch
