#include "kernels/optimizer.h"

#include "kernels/bodies.h"
#include "kernels/check.h"

namespace tessera::kernels {
namespace {

void check_bucket(const char* op, int states, const UpdatedTensors& bucket,
                  const UpdatedTensors& first) {
  const int64_t count = bucket.weight.numel();
  const DType weights = first.weight.dtype;
  const DType type = accumulate_type(weights);
  check_flat(op, "master", bucket.master, first.has_rests() ? DType::kBF16 : type, count);
  if (states > 0) check_flat(op, "m", bucket.m, type, count);
  if (states > 1) check_flat(op, "v", bucket.v, type, count);
  check_flat(op, "grad", bucket.grad, gradient_type(weights, first.grad), count);
  check_flat(op, "weight", bucket.weight, weights, count);
}

void check_update(const char* op, int states, const Context& ctx,
                  std::span<const UpdatedTensors> buckets, const Tensor& known) {
  TESSERA_CHECK(!buckets.empty() && buckets.size() <= kMostGroupedBuckets, "{}: {} buckets", op,
                buckets.size());
  for (const UpdatedTensors& bucket : buckets) check_bucket(op, states, bucket, buckets[0]);
  check_flat(op, "known", known, DType::kF64, known.numel());
  TESSERA_CHECK(known.numel() == 1 || known.numel() >= kMetricsHead, "{}: {} numbers known", op,
                known.numel());
  check_params(op, ctx.params);
}

}  // namespace

void sum_squares(Context& ctx, std::span<const SquaredTensor> tensors, Tensor& metrics) {
  constexpr const char* kOp = "sum_squares";
  check_flat(kOp, "metrics", metrics, DType::kF64, metrics.numel());
  TESSERA_CHECK(!tensors.empty() && tensors.size() <= kMostGroupedBuckets, "{}: {} tensors", kOp,
                tensors.size());
  int64_t next = 0;
  for (const auto& [x, metric] : tensors) {
    check_flat(kOp, "x", x, tensors[0].x.dtype, x.numel());
    TESSERA_CHECK(metric >= next && metric < metrics.numel(), "{}: metric {} of {} to {}", kOp,
                  metric, next, metrics.numel());
    next = metric + 1;
  }
  bodies_of(ctx).sum_squares(ctx, tensors, metrics);
}

void add_metrics(Context& ctx, const Tensor& loss, const Tensor& labels, Tensor& metrics,
                 int64_t updates) {
  constexpr const char* kOp = "add_metrics";
  check_flat(kOp, "loss", loss, DType::kF64, 1);
  check_flat(kOp, "labels", labels, DType::kI32, labels.numel());
  check_flat(kOp, "metrics", metrics, DType::kF64, metrics.numel());
  TESSERA_CHECK(metrics.numel() >= kMetricsHead && updates >= 1 && labels.numel() % updates == 0,
                "{}: {} metrics, {} labels, {} updates", kOp, metrics.numel(), labels.numel(),
                updates);
  bodies_of(ctx).add_metrics(ctx, loss, labels, metrics, updates);
}

void count_tokens(Context& ctx, const Tensor& labels, Tensor& counts) {
  constexpr const char* kOp = "count_tokens";
  check_flat(kOp, "labels", labels, DType::kI32, labels.numel());
  check_flat(kOp, "counts", counts, DType::kF64, counts.numel());
  TESSERA_CHECK(counts.numel() > 0 && labels.numel() % counts.numel() == 0,
                "{}: {} labels in {} parts", kOp, labels.numel(), counts.numel());
  bodies_of(ctx).count_tokens(ctx, labels, counts);
}

void adamw(Context& ctx, std::span<const UpdatedTensors> buckets, const Tensor& known,
           const UpdatePlace& place) {
  check_update("adamw", 2, ctx, buckets, known);
  bodies_of(ctx).adamw(ctx, buckets, known, place);
}

void sgd(Context& ctx, std::span<const UpdatedTensors> buckets, const Tensor& known,
         const UpdatePlace& place) {
  const bool keeps_m = !buckets.empty() && buckets[0].m.data != nullptr;
  check_update("sgd", keeps_m ? 1 : 0, ctx, buckets, known);
  bodies_of(ctx).sgd(ctx, buckets, known, place);
}

}  // namespace tessera::kernels
