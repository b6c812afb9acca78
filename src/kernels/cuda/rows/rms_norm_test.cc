#include "base/cuda_workspace.h"
#include "kernels/testing/cuda_rows.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // NOLINT: test vocabulary

constexpr double kEps = 1e-5;

TEST(CudaRmsNorm, MatchesTheCpuForEveryTypeAndSize) {
  SKIP_WITHOUT_GPU();
  Rng rng(6);
  Rig cpu;
  GpuRig gpu;
  for (const auto& [tokens, width] : kRowSizes) {
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} x {} of {}", tokens, width, name_of(type)));
      const Array x = Array(type, {tokens, width}).randomise(rng);
      const Array w = Array(type, {width}).randomise(rng);
      Array y(type, {tokens, width}), rstd(accumulate_type(type), {tokens});
      OnGpu x_gpu(x), w_gpu(w), y_gpu(y), rstd_gpu(rstd);
      kernels::rms_norm(cpu, x, w, y, rstd, kEps);
      kernels::rms_norm(gpu, x_gpu, w_gpu, y_gpu, rstd_gpu, kEps);
      expect_same(y_gpu, y, tolerance(type));
      expect_same(rstd_gpu, rstd, tolerance(rstd.type()));
      OnGpu again(Array(type, {tokens, width}));
      kernels::rms_norm(gpu, x_gpu, w_gpu, again, rstd_gpu, kEps);
      EXPECT_TRUE(again.get().same_bits(y_gpu.get()));
    }
  }
}

TEST(CudaRmsNorm, AddsFirstAsTheCpuDoes) {
  SKIP_WITHOUT_GPU();
  Rng rng(7);
  Rig cpu;
  GpuRig gpu;
  for (const auto& [tokens, width] : kRowSizes) {
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} x {} of {}", tokens, width, name_of(type)));
      const Array a = Array(type, {tokens, width}).randomise(rng);
      const Array b = Array(type, {tokens, width}).randomise(rng);
      const Array w = Array(type, {width}).randomise(rng);
      Array sum(type, {tokens, width}), y(type, {tokens, width});
      Array rstd(accumulate_type(type), {tokens});
      kernels::add_rms_norm(cpu, a, b, w, sum, y, rstd, kEps);
      // The sum to memory of its own, over a, and over b.
      for (int where = 0; where < 3; ++where) {
        OnGpu a_gpu(a), b_gpu(b), w_gpu(w), sum_gpu(Array(type, {tokens, width}));
        OnGpu y_gpu(Array(type, {tokens, width})), rstd_gpu(Array(rstd.type(), {tokens}));
        OnGpu& to = where == 0 ? sum_gpu : where == 1 ? a_gpu : b_gpu;
        kernels::add_rms_norm(gpu, a_gpu, b_gpu, w_gpu, to, y_gpu, rstd_gpu, kEps);
        EXPECT_TRUE(to.get().same_bits(sum));
        expect_same(y_gpu, y, tolerance(type));
        expect_same(rstd_gpu, rstd, tolerance(rstd.type()));
      }
    }
  }
}

TEST(CudaRmsNorm, GradientsMatchTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(8);
  Rig cpu;
  for (const auto& [tokens, width] : kRowSizes) {
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} x {} of {}", tokens, width, name_of(type)));
      GpuRig gpu(workspace::cuda::column_sums(type, tokens, width));
      const Array dy = Array(type, {tokens, width}).randomise(rng);
      const Array x = Array(type, {tokens, width}).randomise(rng);
      const Array w = Array(type, {width}).randomise(rng);
      const Array residual = Array(type, {tokens, width}).randomise(rng);
      Array y(type, {tokens, width}), rstd(accumulate_type(type), {tokens});
      kernels::rms_norm(cpu, x, w, y, rstd, kEps);
      OnGpu dy_gpu(dy), x_gpu(x), w_gpu(w), rstd_gpu(rstd), residual_gpu(residual);

      Array dx(type, {tokens, width});
      OnGpu dx_gpu(dx);
      if (width > 1) {  // else dx is zero but for eps and rounding
        kernels::rms_norm_dx(cpu, dy, x, w, rstd, Tensor{}, dx);
        kernels::rms_norm_dx(gpu, dy_gpu, x_gpu, w_gpu, rstd_gpu, Tensor{}, dx_gpu);
        expect_same(dx_gpu, dx, tolerance(type));
      }
      kernels::rms_norm_dx(cpu, dy, x, w, rstd, residual, dx);
      kernels::rms_norm_dx(gpu, dy_gpu, x_gpu, w_gpu, rstd_gpu, residual_gpu, dx_gpu);
      expect_same(dx_gpu, dx, tolerance(type));
      kernels::rms_norm_dx(gpu, dy_gpu, x_gpu, w_gpu, rstd_gpu, residual_gpu, residual_gpu);
      EXPECT_TRUE(residual_gpu.get().same_bits(dx_gpu.get()));

      Array dw(accumulate_type(type), {width});
      OnGpu dw_gpu(dw), again(dw);
      for (const bool accumulate : {false, true}) {
        kernels::rms_norm_dw(cpu, dy, x, rstd, dw, accumulate);
        kernels::rms_norm_dw(gpu, dy_gpu, x_gpu, rstd_gpu, dw_gpu, accumulate);
        expect_same(dw_gpu, dw, sum_tolerance(type));
        kernels::rms_norm_dw(gpu, dy_gpu, x_gpu, rstd_gpu, again, accumulate);
        EXPECT_TRUE(again.get().same_bits(dw_gpu.get()));
      }
    }
  }
}

}  // namespace
}  // namespace tessera::kernels::cuda
