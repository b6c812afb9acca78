// What a step ends with: norms of gradients, counts, the update of the weights.
#pragma once

#include <span>

#include "base/step_params.h"
#include "kernels/context.h"

namespace tessera::kernels {

// ---- optimizer, on flat tensors ----
// Several tensors in one call, at most kMostGroupedBuckets, all of one type.
struct SquaredTensor {
  Tensor x;
  int64_t metric = 0;
};
// metrics[metric] (f64) += sum of x^2, accumulated in f64 in a fixed order. The metrics ascend.
void sum_squares(Context& ctx, std::span<const SquaredTensor> tensors, Tensor& metrics);
// Adds loss[1] and the number of unmasked labels, and of those of the last of `updates` equal
// parts, to the head of `metrics`.
void add_metrics(Context& ctx, const Tensor& loss, const Tensor& labels, Tensor& metrics,
                 int64_t updates);
// counts[i] (f64) = unmasked labels of part i of counts.numel() equal ones.
void count_tokens(Context& ctx, const Tensor& labels, Tensor& counts);
// master, m, v: the accumulate type; v is AdamW's alone, and m is empty in SGD without momentum.
// grad: as weight gradients above. weight: storage type, written from master; weight and master may
// be the same tensor (f32 and f64 training keep one copy). A master of 16-bit elements beside a
// bf16 weight holds the rests of base/master_weight.h: then weight is read too. All buckets of a
// call are alike in this.
struct UpdatedTensors {
  Tensor master, m, v, grad, weight;
  bool decay = false;

  // Whether master holds rests.
  [[nodiscard]] bool has_rests() const {
    return weight.dtype == DType::kBF16 && master.dtype == DType::kBF16;
  }
};
// w -= lr * weight_decay * w;  w -= lr * mhat / (sqrt(vhat) + eps), as PyTorch's AdamW, with
// ctx.params; `known` (f64) gives the norm and the tokens (base/step_params.h).
void adamw(Context& ctx, std::span<const UpdatedTensors> buckets, const Tensor& known,
           const UpdatePlace& place);
// As PyTorch's SGD: g += weight_decay * w;  m = momentum * m + g;  w -= lr * m, or with Nesterov's
// look ahead lr * (g + momentum * m). The place does not matter.
void sgd(Context& ctx, std::span<const UpdatedTensors> buckets, const Tensor& known,
         const UpdatePlace& place);

}  // namespace tessera::kernels
