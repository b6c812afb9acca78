#include "kernels/optimizer.h"

#include "kernels/bodies.h"
#include "kernels/check.h"

namespace tessera::kernels {
namespace {

void check_bucket(const char* op, const UpdatedTensors& bucket, const UpdatedTensors& first) {
  const int64_t count = bucket.weight.numel();
  const DType weights = first.weight.dtype;
  const DType type = accumulate_type(weights);
  check_flat(op, "master", bucket.master, first.has_rests() ? DType::kBF16 : type, count);
  check_flat(op, "m", bucket.m, type, count);
  check_flat(op, "v", bucket.v, type, count);
  check_flat(op, "grad", bucket.grad, gradient_type(weights, first.grad), count);
  check_flat(op, "weight", bucket.weight, weights, count);
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
  constexpr const char* kOp = "adamw";
  TESSERA_CHECK(!buckets.empty() && buckets.size() <= kMostGroupedBuckets, "{}: {} buckets", kOp,
                buckets.size());
  for (const UpdatedTensors& bucket : buckets) check_bucket(kOp, bucket, buckets[0]);
  check_flat(kOp, "known", known, DType::kF64, known.numel());
  TESSERA_CHECK(known.numel() == 1 || known.numel() >= kMetricsHead, "{}: {} numbers known", kOp,
                known.numel());
  check_params(kOp, ctx.params);
  bodies_of(ctx).adamw(ctx, buckets, known, place);
}

}  // namespace tessera::kernels
