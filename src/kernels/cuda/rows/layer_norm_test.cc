#include "base/cuda_workspace.h"
#include "kernels/testing/cuda_rows.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // NOLINT: test vocabulary

constexpr double kEps = 1e-5;

TEST(CudaLayerNorm, MatchesTheCpuForEveryTypeAndSize) {
  SKIP_WITHOUT_GPU();
  Rng rng(9);
  Rig cpu;
  GpuRig gpu;
  for (const auto& [tokens, width] : kRowSizes) {
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} x {} of {}", tokens, width, name_of(type)));
      const Array x = Array(type, {tokens, width}).randomise(rng);
      const Array w = Array(type, {width}).randomise(rng), b = Array(type, {width}).randomise(rng);
      Array y(type, {tokens, width}), stats(accumulate_type(type), {tokens, 2});
      OnGpu x_gpu(x), w_gpu(w), b_gpu(b), y_gpu(y), stats_gpu(stats);
      kernels::layer_norm(cpu, x, w, b, y, stats, kEps);
      kernels::layer_norm(gpu, x_gpu, w_gpu, b_gpu, y_gpu, stats_gpu, kEps);
      expect_same(y_gpu, y, tolerance(type));
      expect_same(stats_gpu, stats, tolerance(stats.type()));
      OnGpu again(Array(type, {tokens, width}));
      kernels::layer_norm(gpu, x_gpu, w_gpu, b_gpu, again, stats_gpu, kEps);
      EXPECT_TRUE(again.get().same_bits(y_gpu.get()));
    }
  }
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

TEST(CudaLayerNorm, AddsFirstAsTheCpuDoes) {
  SKIP_WITHOUT_GPU();
  Rng rng(11);
  Rig cpu;
  GpuRig gpu;
  for (const auto& [tokens, width] : kRowSizes) {
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} x {} of {}", tokens, width, name_of(type)));
      const Array a1 = Array(type, {tokens, width}).randomise(rng);
      const Array a2 = Array(type, {tokens, width}).randomise(rng);
      const Array w = Array(type, {width}).randomise(rng), b = Array(type, {width}).randomise(rng);
      Array sum(type, {tokens, width}), y(type, {tokens, width});
      Array stats(accumulate_type(type), {tokens, 2});
      kernels::add_layer_norm(cpu, a1, a2, w, b, sum, y, stats, kEps);
      // The sum to memory of its own, over a1, and over a2.
      for (int where = 0; where < 3; ++where) {
        OnGpu a1_gpu(a1), a2_gpu(a2), w_gpu(w), b_gpu(b), sum_gpu(Array(type, {tokens, width}));
        OnGpu y_gpu(Array(type, {tokens, width})), stats_gpu(Array(stats.type(), {tokens, 2}));
        OnGpu& to = where == 0 ? sum_gpu : where == 1 ? a1_gpu : a2_gpu;
        kernels::add_layer_norm(gpu, a1_gpu, a2_gpu, w_gpu, b_gpu, to, y_gpu, stats_gpu, kEps);
        EXPECT_TRUE(to.get().same_bits(sum));
        expect_same(y_gpu, y, tolerance(type));
        expect_same(stats_gpu, stats, tolerance(stats.type()));
      }
    }
  }
}

TEST(CudaLayerNorm, GradientsMatchTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(12);
  Rig cpu;
  for (const auto& [tokens, width] : kRowSizes) {
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} x {} of {}", tokens, width, name_of(type)));
      GpuRig gpu(workspace::cuda::column_sums(type, tokens, width));
      const Array dy = Array(type, {tokens, width}).randomise(rng);
      const Array x = Array(type, {tokens, width}).randomise(rng);
      const Array w = Array(type, {width}).randomise(rng), b = Array(type, {width}).randomise(rng);
      const Array residual = Array(type, {tokens, width}).randomise(rng);
      Array y(type, {tokens, width}), stats(accumulate_type(type), {tokens, 2});
      kernels::layer_norm(cpu, x, w, b, y, stats, kEps);
      OnGpu dy_gpu(dy), x_gpu(x), w_gpu(w), stats_gpu(stats), residual_gpu(residual);

      Array dx(type, {tokens, width});
      OnGpu dx_gpu(dx);
      if (width > 1) {  // else dx is zero but for rounding
        kernels::layer_norm_dx(cpu, dy, x, w, stats, Tensor{}, dx);
        kernels::layer_norm_dx(gpu, dy_gpu, x_gpu, w_gpu, stats_gpu, Tensor{}, dx_gpu);
        expect_same(dx_gpu, dx, tolerance(type));
      }
      kernels::layer_norm_dx(cpu, dy, x, w, stats, residual, dx);
      kernels::layer_norm_dx(gpu, dy_gpu, x_gpu, w_gpu, stats_gpu, residual_gpu, dx_gpu);
      // Of one element: rstd is 1 / sqrt(eps), and so much larger is the rounding.
      expect_same(dx_gpu, dx, width > 1 ? tolerance(type) : 1e3 * tolerance(type));
      kernels::layer_norm_dx(gpu, dy_gpu, x_gpu, w_gpu, stats_gpu, residual_gpu, residual_gpu);
      EXPECT_TRUE(residual_gpu.get().same_bits(dx_gpu.get()));

      Array dw(accumulate_type(type), {width});
      OnGpu dw_gpu(dw), again(dw);
      for (const bool accumulate : {false, true}) {
        kernels::layer_norm_dw(cpu, dy, x, stats, dw, accumulate);
        kernels::layer_norm_dw(gpu, dy_gpu, x_gpu, stats_gpu, dw_gpu, accumulate);
        expect_same(dw_gpu, dw, sum_tolerance(type));
        kernels::layer_norm_dw(gpu, dy_gpu, x_gpu, stats_gpu, again, accumulate);
        EXPECT_TRUE(again.get().same_bits(dw_gpu.get()));
      }
    }
  }
}

}  // namespace
}  // namespace tessera::kernels::cuda
