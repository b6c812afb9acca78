#include "kernels/lane_sums.h"

#include <algorithm>
#include <mutex>

#include "base/lane_sums.h"
#include "kernels/check.h"
#include "kernels/cpu/dispatch.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kSquaresAtOnce = int64_t{1} << 16;

void check_sums(const char* op, const Tensor& sums, int64_t lanes) {
  check_flat(op, "sums", sums, DType::kF64, LaneSums::count(lanes));
}

template <typename T>
ExactSum squares_of(const T* x, int64_t begin, int64_t end) {
  ExactSum sum;
  for (int64_t i = begin; i < end; ++i) {
    const auto value = static_cast<double>(cpu::widen(x[i]));
    sum.add(value * value);
  }
  sum.normalize();
  return sum;
}

}  // namespace

void sum_squares_exactly(Context& ctx, std::span<const SquaredTensor> tensors, int64_t lanes,
                         Tensor& sums) {
  constexpr const char* kOp = "sum_squares";
  TESSERA_CHECK(ctx.gpu == nullptr, "{}: lanes on a GPU", kOp);
  check_sums(kOp, sums, lanes);
  ExactSum total;
  std::mutex merging;  // in any order: the sum is exact
  for (const SquaredTensor& t : tensors) {
    cpu::dispatch(kOp, t.x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      ctx.workers.parallel_for(t.x.numel(), kSquaresAtOnce, [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; at += kSquaresAtOnce) {
          const ExactSum part = squares_of(t.x.as<T>(), at, std::min(end, at + kSquaresAtOnce));
          const std::lock_guard<std::mutex> lock(merging);
          total.add(part);
        }
      });
    });
  }
  total.add_to(sums.as<double>() + LaneSums::squares(lanes));
}

void add_lane_metrics(const Tensor& loss, const Tensor& labels, int64_t lanes, int64_t first_lane,
                      Tensor& sums) {
  constexpr const char* kOp = "add_lane_metrics";
  check_sums(kOp, sums, lanes);
  check_flat(kOp, "loss", loss, DType::kF64, loss.numel());
  check_flat(kOp, "labels", labels, DType::kI32, labels.numel());
  TESSERA_CHECK(first_lane + loss.numel() <= lanes, "{}: {} lanes from {} on", kOp, loss.numel(),
                first_lane);
  auto* numbers = sums.as<double>();
  for (int64_t i = 0; i < loss.numel(); ++i) numbers[first_lane + i] += loss.as<double>()[i];
  const int32_t* label = labels.as<int32_t>();
  numbers[LaneSums::tokens(lanes)] += static_cast<double>(
      std::count_if(label, label + labels.numel(), [](int32_t l) { return l >= 0; }));
}

void join_lanes(const Tensor& sums, int64_t lanes, Tensor& metrics) {
  constexpr const char* kOp = "join_lanes";
  check_sums(kOp, sums, lanes);
  check_flat(kOp, "metrics", metrics, DType::kF64, kMetricsHead + 1);
  tessera::join_lanes(sums.as<double>(), lanes, metrics.as<double>());
}

}  // namespace tessera::kernels
