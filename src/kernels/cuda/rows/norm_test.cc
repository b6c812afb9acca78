// Norms of rows and their gradients, one kernel at a time; norm_grad_test.cc has those that make
// several gradients at once.
#include "base/cuda_workspace.h"
#include "kernels/norms.h"
#include "kernels/testing/cuda_rows.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

constexpr double kEps = 1e-5;

// The kernels of a norm under one name.
struct LayerNorm {
  static Array stats(DType type, int64_t tokens) { return Array(type, {tokens, 2}); }
  static void norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y,
                   Tensor& stats) {
    kernels::layer_norm(ctx, x, w, b, y, stats, kEps);
  }
  static void add_norm(Context& ctx, const Tensor& a1, const Tensor& a2, const Tensor& w,
                       const Tensor& b, Tensor& sum, Tensor& y, Tensor& stats) {
    kernels::add_layer_norm(ctx, a1, a2, w, b, sum, y, stats, kEps);
  }
  static constexpr auto& dx = kernels::layer_norm_dx;
  static constexpr auto& dw = kernels::layer_norm_dw;
  // In a row of one element rstd is 1 / sqrt(eps), and rounding is as much larger.
  static constexpr double kSlackOfOneElement = 1e3;
};
struct RmsNorm {
  static Array stats(DType type, int64_t tokens) { return Array(type, {tokens}); }
  static void norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& /*b*/, Tensor& y,
                   Tensor& stats) {
    kernels::rms_norm(ctx, x, w, y, stats, kEps);
  }
  static void add_norm(Context& ctx, const Tensor& a1, const Tensor& a2, const Tensor& w,
                       const Tensor& /*b*/, Tensor& sum, Tensor& y, Tensor& stats) {
    kernels::add_rms_norm(ctx, a1, a2, w, sum, y, stats, kEps);
  }
  static constexpr auto& dx = kernels::rms_norm_dx;
  static constexpr auto& dw = kernels::rms_norm_dw;
  static constexpr double kSlackOfOneElement = 1;
};

template <typename Norm>
class CudaNorm : public ::testing::Test {};
using Norms = ::testing::Types<LayerNorm, RmsNorm>;
TYPED_TEST_SUITE(CudaNorm, Norms);

TYPED_TEST(CudaNorm, MatchesTheCpuForEveryTypeAndSize) {
  SKIP_WITHOUT_GPU();
  Rng rng(9);
  Rig cpu;
  GpuRig gpu;
  for_each_size(kRowSizes, [&](DType type, int64_t tokens, int64_t width) {
    const Array x = Array(type, {tokens, width}).randomise(rng);
    const Array w = Array(type, {width}).randomise(rng), b = Array(type, {width}).randomise(rng);
    Array y(type, {tokens, width}), stats = TypeParam::stats(accumulate_type(type), tokens);
    OnGpu x_gpu(x), w_gpu(w), b_gpu(b), y_gpu(y), stats_gpu(stats);
    TypeParam::norm(cpu, x, w, b, y, stats);
    TypeParam::norm(gpu, x_gpu, w_gpu, b_gpu, y_gpu, stats_gpu);
    expect_same(y_gpu, y, tolerance(type));
    expect_same(stats_gpu, stats, tolerance(stats.type()));
    OnGpu again(Array(type, {tokens, width}));
    TypeParam::norm(gpu, x_gpu, w_gpu, b_gpu, again, stats_gpu);
    EXPECT_TRUE(again.get().same_bits(y_gpu.get()));
  });
}

TYPED_TEST(CudaNorm, AddsFirstAsTheCpuDoes) {
  SKIP_WITHOUT_GPU();
  Rng rng(11);
  Rig cpu;
  GpuRig gpu;
  for_each_size(kRowSizes, [&](DType type, int64_t tokens, int64_t width) {
    const Array a1 = Array(type, {tokens, width}).randomise(rng);
    const Array a2 = Array(type, {tokens, width}).randomise(rng);
    const Array w = Array(type, {width}).randomise(rng), b = Array(type, {width}).randomise(rng);
    const Array empty(type, {tokens, width});
    const Array no_stats = TypeParam::stats(accumulate_type(type), tokens);
    Array sum(empty), y(empty), stats(no_stats);
    TypeParam::add_norm(cpu, a1, a2, w, b, sum, y, stats);
    // The sum to memory of its own, over a1, and over a2.
    for (int where = 0; where < 3; ++where) {
      OnGpu a1_gpu(a1), a2_gpu(a2), w_gpu(w), b_gpu(b);
      OnGpu sum_gpu(empty), y_gpu(empty), stats_gpu(no_stats);
      OnGpu& to = where == 0 ? sum_gpu : where == 1 ? a1_gpu : a2_gpu;
      TypeParam::add_norm(gpu, a1_gpu, a2_gpu, w_gpu, b_gpu, to, y_gpu, stats_gpu);
      EXPECT_TRUE(to.get().same_bits(sum));
      expect_same(y_gpu, y, tolerance(type));
      expect_same(stats_gpu, stats, tolerance(stats.type()));
    }
  });
}

TYPED_TEST(CudaNorm, GradientsMatchTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(12);
  Rig cpu;
  for_each_size(kRowSizes, [&](DType type, int64_t tokens, int64_t width) {
    GpuRig gpu(workspace::cuda::column_sums(type, tokens, width));
    const Array dy = Array(type, {tokens, width}).randomise(rng);
    const Array x = Array(type, {tokens, width}).randomise(rng);
    const Array w = Array(type, {width}).randomise(rng), b = Array(type, {width}).randomise(rng);
    const Array residual = Array(type, {tokens, width}).randomise(rng);
    Array y(type, {tokens, width}), stats = TypeParam::stats(accumulate_type(type), tokens);
    TypeParam::norm(cpu, x, w, b, y, stats);
    OnGpu dy_gpu(dy), x_gpu(x), w_gpu(w), stats_gpu(stats), residual_gpu(residual);

    Array dx(type, {tokens, width});
    OnGpu dx_gpu(dx);
    if (width > 1) {  // else dx is zero but for eps and rounding
      TypeParam::dx(cpu, dy, x, w, stats, Tensor{}, dx);
      TypeParam::dx(gpu, dy_gpu, x_gpu, w_gpu, stats_gpu, Tensor{}, dx_gpu);
      expect_same(dx_gpu, dx, tolerance(type));
    }
    TypeParam::dx(cpu, dy, x, w, stats, residual, dx);
    TypeParam::dx(gpu, dy_gpu, x_gpu, w_gpu, stats_gpu, residual_gpu, dx_gpu);
    expect_same(dx_gpu, dx, tolerance(type) * (width > 1 ? 1 : TypeParam::kSlackOfOneElement));
    TypeParam::dx(gpu, dy_gpu, x_gpu, w_gpu, stats_gpu, residual_gpu, residual_gpu);
    EXPECT_TRUE(residual_gpu.get().same_bits(dx_gpu.get()));

    expect_same_sums(
        type, width,
        [&](Tensor& dw, bool accumulate) { TypeParam::dw(cpu, dy, x, stats, dw, accumulate); },
        [&](Tensor& dw, bool accumulate) {
          TypeParam::dw(gpu, dy_gpu, x_gpu, stats_gpu, dw, accumulate);
        });
  });
}

// The variance of numbers far from zero survives only if the mean is taken off first.
TEST(CudaLayerNorm, IsExactFarFromZero) {
  SKIP_WITHOUT_GPU();
  Rng rng(10);
  Rig cpu;
  GpuRig gpu;
  Array x = Array(DType::kF32, {5, 1600}).randomise(rng);
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, 1000 + x.get(i));
  const Array w = Array(DType::kF32, {1600}).fill(1), b = Array(DType::kF32, {1600}).fill(0);
  Array y(DType::kF32, {5, 1600}), stats(DType::kF32, {5, 2});
  OnGpu x_gpu(x), w_gpu(w), b_gpu(b), y_gpu(y), stats_gpu(stats);
  kernels::layer_norm(cpu, x, w, b, y, stats, kEps);
  kernels::layer_norm(gpu, x_gpu, w_gpu, b_gpu, y_gpu, stats_gpu, kEps);
  // The mean itself is rounded to 6e-5.
  expect_same(y_gpu, y, 1e-4);
}

}  // namespace
}  // namespace tessera::kernels::cuda
