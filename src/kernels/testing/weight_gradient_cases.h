// Every kernel that makes the gradient of a weight, on random bf16 inputs: shared by the tests of
// both devices.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/cuda_workspace.h"
#include "kernels/experts.h"
#include "kernels/testing/test_support.h"

namespace tessera::kernels::testing {

// What rounding to bf16 changes at most, relative to the number.
inline constexpr double kBf16Rounding = 1.0 / 256;

struct WeightGradientCase {
  std::string name;
  std::vector<Array> inputs;
  Array gradient;  // in f32, not computed yet
  int64_t cpu_bytes = 0, gpu_bytes = 0;
  std::function<void(Context&, std::span<const Tensor> in, Tensor& gradient, bool accumulate)> run;
};

inline Array random_bf16(std::initializer_list<int64_t> dims, Rng& rng) {
  return Array(DType::kBF16, dims).randomise(rng);
}
inline Array random_rows(int64_t count, int64_t rows, Rng& rng) {
  Array ids(DType::kI32, {count});
  for (int64_t t = 0; t < count; ++t) {
    ids.set(t, static_cast<double>(rng() % static_cast<uint64_t>(rows)));
  }
  return ids;
}

// `tokens` of `width` columns; `threads` of the CPU.
inline std::vector<WeightGradientCase> weight_gradient_cases(int64_t tokens, int64_t width,
                                                             int threads, Rng& rng) {
  constexpr DType kType = DType::kBF16;
  constexpr int64_t kOut = 24, kVocab = 37, kSequence = 5, kHeads = 3, kExperts = 2;
  using In = std::span<const Tensor>;
  const int64_t linear = workspace::linear(kType, tokens, kOut, width, threads);
  const int64_t sums = workspace::cuda::column_sums(kType, tokens, width);
  const auto x = [&] { return random_bf16({tokens, width}, rng); };
  const auto vector = [](int64_t count) { return Array(DType::kF32, {count}); };
  const auto matrix = [](int64_t rows, int64_t cols) { return Array(DType::kF32, {rows, cols}); };
  const auto statistics = [&](int64_t columns) {
    return Array(DType::kF32, {tokens, columns}).randomise(rng);
  };
  Array counts(DType::kI32, {1, kExperts});
  counts.set(0, static_cast<double>(tokens / 3));
  counts.set(1, static_cast<double>(tokens - tokens / 3));
  std::vector<WeightGradientCase> cases;
  cases.push_back({"linear_dw",
                   {random_bf16({tokens, kOut}, rng), x()},
                   matrix(kOut, width),
                   linear,
                   workspace::cuda::kMatmulBytes,
                   [](Context& ctx, In in, Tensor& dw, bool accumulate) {
                     linear_dw(ctx, in[0], in[1], dw, accumulate);
                   }});
  cases.push_back({"expert_linear_dw",
                   {random_bf16({1, tokens, kOut}, rng), random_bf16({1, tokens, width}, rng),
                    std::move(counts)},
                   Array(DType::kF32, {kExperts, kOut, width}),
                   linear,
                   0,
                   [](Context& ctx, In in, Tensor& dw, bool accumulate) {
                     expert_linear_dw(ctx, in[0], in[1], in[2], dw, accumulate);
                   }});
  cases.push_back({"bias_dw",
                   {x()},
                   vector(width),
                   0,
                   sums,
                   [](Context& ctx, In in, Tensor& db, bool accumulate) {
                     bias_dw(ctx, in[0], db, accumulate);
                   }});
  cases.push_back({"rms_norm_dw",
                   {x(), x(), Array(DType::kF32, {tokens}).randomise(rng)},
                   vector(width),
                   0,
                   sums,
                   [](Context& ctx, In in, Tensor& dw, bool accumulate) {
                     rms_norm_dw(ctx, in[0], in[1], in[2], dw, accumulate);
                   }});
  cases.push_back({"layer_norm_dw",
                   {x(), x(), statistics(2)},
                   vector(width),
                   0,
                   sums,
                   [](Context& ctx, In in, Tensor& dw, bool accumulate) {
                     layer_norm_dw(ctx, in[0], in[1], in[2], dw, accumulate);
                   }});
  cases.push_back({"head_norm_dw",
                   {x(), x(), statistics(kHeads)},
                   vector(width / kHeads),
                   0,
                   workspace::cuda::column_sums(kType, tokens * kHeads, width / kHeads),
                   [](Context& ctx, In in, Tensor& dw, bool accumulate) {
                     head_norm_dw(ctx, in[0], in[1], in[2], dw, accumulate);
                   }});
  const int64_t table = workspace::table_grad(kType, kVocab, threads);
  cases.push_back({"embedding_dw",
                   {random_rows(tokens, kVocab + 2, rng), x()},
                   matrix(kVocab, width),
                   table,
                   workspace::cuda::embedding_dw(tokens),
                   [](Context& ctx, In in, Tensor& dtable, bool accumulate) {
                     embedding_dw(ctx, in[0], in[1], dtable, 1, accumulate);
                   }});
  cases.push_back({"positions_dw",
                   {x()},
                   matrix(kVocab, width),
                   table,
                   0,
                   [](Context& ctx, In in, Tensor& dtable, bool accumulate) {
                     positions_dw(ctx, in[0], dtable, {kSequence, 1, 0}, 0, accumulate);
                   }});
  return cases;
}

}  // namespace tessera::kernels::testing
