#include "kernels/loss.h"

#include <algorithm>

#include "kernels/bodies.h"
#include "kernels/check.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kStats = 3;  // max, sum of exp(x - max), logit of the label

void check_vocabulary(const char* op, const Tensor& logits, const Tensor& labels, int64_t valid) {
  check_dims(op, "logits", logits, 2);
  check_tensor(op, "logits", logits, logits.dtype, {logits.dim(0), logits.dim(1)});
  check_flat(op, "labels", labels, DType::kI32, logits.dim(0));
  TESSERA_CHECK(valid >= 0 && valid <= logits.dim(1), "{}: {} valid columns of {}", op, valid,
                logits.dim(1));
}

// all_stats[G,T,3] is of whole parts.
void check_parts(const char* op, const Tensor& all_stats, DType type, int64_t tokens) {
  const int64_t row = std::max<int64_t>(1, tokens * kStats);
  const int64_t parts = std::max<int64_t>(1, all_stats.numel() / row);
  check_flat(op, "all_stats", all_stats, type, parts * tokens * kStats);
}

}  // namespace

void cross_entropy_stats(Context& ctx, const Tensor& logits, const Tensor& labels, Tensor& stats,
                         int64_t first_row, int64_t valid) {
  constexpr const char* kOp = "cross_entropy_stats";
  check_vocabulary(kOp, logits, labels, valid);
  const int64_t tokens = logits.dim(0);
  check_flat(kOp, "stats", stats, accumulate_type(logits.dtype), tokens * kStats);
  bodies_of(ctx).cross_entropy_stats(ctx, logits, labels, stats, first_row, valid);
}

void cross_entropy_loss(Context& ctx, const Tensor& all_stats, const Tensor& labels, Tensor& loss,
                        bool accumulate) {
  constexpr const char* kOp = "cross_entropy_loss";
  const int64_t tokens = labels.numel();
  check_flat(kOp, "labels", labels, DType::kI32, tokens);
  check_flat(kOp, "loss", loss, DType::kF64, 1);
  const DType type = all_stats.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  check_parts(kOp, all_stats, type, tokens);
  bodies_of(ctx).cross_entropy_loss(ctx, all_stats, labels, loss, accumulate);
}

void cross_entropy_grad(Context& ctx, const Tensor& logits, const Tensor& all_stats,
                        const Tensor& labels, Tensor& d_logits, int64_t first_row, int64_t valid) {
  constexpr const char* kOp = "cross_entropy_grad";
  check_vocabulary(kOp, logits, labels, valid);
  const int64_t tokens = logits.dim(0), columns = logits.dim(1);
  check_tensor(kOp, "d_logits", d_logits, logits.dtype, {tokens, columns});
  check_parts(kOp, all_stats, accumulate_type(logits.dtype), tokens);
  check_params(kOp, ctx.params);
  bodies_of(ctx).cross_entropy_grad(ctx, logits, all_stats, labels, d_logits, first_row, valid);
}

}  // namespace tessera::kernels
