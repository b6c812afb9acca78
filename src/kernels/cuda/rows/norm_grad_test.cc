#include "base/cuda_workspace.h"
#include "kernels/testing/cuda_rows.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

constexpr double kEps = 1e-5;

// Those of every way to share a row out among threads, and rows for several blocks.
RowSizes sizes() {
  RowSizes all = kRowSizes;
  for (const auto& more : RowSizes{
           {257, 768}, {100, 1600}, {70, 2048}, {35, 2056}, {70, 4096}, {1, 1600}, {2500, 64}}) {
    all.push_back(more);
  }
  return all;
}

double gradient_tolerance(DType type, DType gradient) {
  return gradient == DType::kBF16 ? tolerance(gradient) : sum_tolerance(type);
}

// Random tensors of a norm and its gradients.
struct Norm {
  Norm(DType type, int64_t tokens, int64_t width, int64_t stats_per_row, Rng& rng)
      : dy(Array(type, {tokens, width}).randomise(rng)),
        x(Array(type, {tokens, width}).randomise(rng)),
        w(Array(type, {width}).randomise(rng)),
        b(Array(type, {width}).randomise(rng)),
        residual(Array(type, {tokens, width}).randomise(rng)),
        y(type, {tokens, width}),
        stats(stats_per_row == 2 ? Array(accumulate_type(type), {tokens, 2})
                                 : Array(accumulate_type(type), {tokens})) {}
  Array dy, x, w, b, residual, y, stats;
};

TEST(CudaNormGrad, OfWeightAndBiasMatchTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(31);
  Rig cpu;
  for_each_size(sizes(), [&](DType type, int64_t tokens, int64_t width) {
    GpuRig gpu(workspace::cuda::column_sums(type, tokens, width, 2));
    Norm norm(type, tokens, width, 2, rng);
    kernels::layer_norm(cpu, norm.x, norm.w, norm.b, norm.y, norm.stats, kEps);
    const OnGpu dy(norm.dy), x(norm.x), stats(norm.stats);
    for (const DType gradient : gradient_types(type)) {
      Array dw(gradient, {width}), db(gradient, {width});
      OnGpu dw_gpu(dw), db_gpu(db), dw_again(dw), db_again(db);
      for (const bool accumulate : {false, true}) {
        kernels::layer_norm_dw_bias(cpu, norm.dy, norm.x, norm.stats, dw, db, accumulate);
        kernels::layer_norm_dw_bias(gpu, dy, x, stats, dw_gpu, db_gpu, accumulate);
        expect_same(dw_gpu, dw, gradient_tolerance(type, gradient));
        expect_same(db_gpu, db, gradient_tolerance(type, gradient));
        kernels::layer_norm_dw_bias(gpu, dy, x, stats, dw_again, db_again, accumulate);
        EXPECT_TRUE(dw_again.get().same_bits(dw_gpu.get()));
        EXPECT_TRUE(db_again.get().same_bits(db_gpu.get()));
      }
    }
  });
}

TEST(CudaNormGrad, OfLayerNormMatchesTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(32);
  Rig cpu;
  for_each_size(sizes(), [&](DType type, int64_t tokens, int64_t width) {
    GpuRig gpu(workspace::cuda::norm_grad(type, tokens, width, 2));
    Norm norm(type, tokens, width, 2, rng);
    kernels::layer_norm(cpu, norm.x, norm.w, norm.b, norm.y, norm.stats, kEps);
    const OnGpu dy(norm.dy), x(norm.x), w(norm.w), stats(norm.stats);
    for (const DType gradient : gradient_types(type)) {
      Array dw(gradient, {width}), db(gradient, {width});
      OnGpu dw_gpu(dw), db_gpu(db), dw_again(dw), db_again(db);
      for (const bool accumulate : {false, true}) {
        OnGpu residual(norm.residual);
        Array dx(type, {tokens, width});
        OnGpu dx_gpu(dx);
        kernels::layer_norm_grad(cpu, norm.dy, norm.x, norm.w, norm.stats, norm.residual, dx, dw,
                                 db, accumulate);
        kernels::layer_norm_grad(gpu, dy, x, w, stats, residual, dx_gpu, dw_gpu, db_gpu,
                                 accumulate);
        // In a row of one element rstd is 1 / sqrt(eps), and rounding is as much larger.
        expect_same(dx_gpu, dx, width > 1 ? tolerance(type) : 1e3 * tolerance(type));
        expect_same(dw_gpu, dw, gradient_tolerance(type, gradient));
        expect_same(db_gpu, db, gradient_tolerance(type, gradient));
        // Over the residual, and again.
        kernels::layer_norm_grad(gpu, dy, x, w, stats, residual, residual, dw_again, db_again,
                                 accumulate);
        EXPECT_TRUE(residual.get().same_bits(dx_gpu.get()));
        EXPECT_TRUE(dw_again.get().same_bits(dw_gpu.get()));
        EXPECT_TRUE(db_again.get().same_bits(db_gpu.get()));
      }
    }
    if (width == 1) return;  // dx is zero but for rounding
    Array dx(type, {tokens, width}), dw(accumulate_type(type), {width}), db(dw);
    OnGpu dx_gpu(dx), dw_gpu(dw), db_gpu(db);
    kernels::layer_norm_grad(cpu, norm.dy, norm.x, norm.w, norm.stats, Tensor{}, dx, dw, db, false);
    kernels::layer_norm_grad(gpu, dy, x, w, stats, Tensor{}, dx_gpu, dw_gpu, db_gpu, false);
    expect_same(dx_gpu, dx, tolerance(type));
    expect_same(dw_gpu, dw, sum_tolerance(type));
    expect_same(db_gpu, db, sum_tolerance(type));
  });
}

TEST(CudaNormGrad, OfRmsNormMatchesTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(33);
  for_each_size(sizes(), [&](DType type, int64_t tokens, int64_t width) {
    Rig cpu(1, workspace::rms_norm_dw(type, tokens, width, 1));
    GpuRig gpu(workspace::cuda::norm_grad(type, tokens, width, 1));
    Norm norm(type, tokens, width, 1, rng);
    kernels::rms_norm(cpu, norm.x, norm.w, norm.y, norm.stats, kEps);
    const OnGpu dy(norm.dy), x(norm.x), w(norm.w), rstd(norm.stats);
    for (const DType gradient : gradient_types(type)) {
      Array dw(gradient, {width});
      OnGpu dw_gpu(dw), dw_again(dw);
      for (const bool accumulate : {false, true}) {
        OnGpu residual(norm.residual);
        Array dx(type, {tokens, width});
        OnGpu dx_gpu(dx);
        kernels::rms_norm_grad(cpu, norm.dy, norm.x, norm.w, norm.stats, norm.residual, dx, dw,
                               accumulate);
        kernels::rms_norm_grad(gpu, dy, x, w, rstd, residual, dx_gpu, dw_gpu, accumulate);
        expect_same(dx_gpu, dx, tolerance(type));
        expect_same(dw_gpu, dw, gradient_tolerance(type, gradient));
        kernels::rms_norm_grad(gpu, dy, x, w, rstd, residual, residual, dw_again, accumulate);
        EXPECT_TRUE(residual.get().same_bits(dx_gpu.get()));
        EXPECT_TRUE(dw_again.get().same_bits(dw_gpu.get()));
      }
    }
    if (width == 1) return;  // dx is zero but for rounding
    Array dx(type, {tokens, width}), dw(accumulate_type(type), {width});
    OnGpu dx_gpu(dx), dw_gpu(dw);
    kernels::rms_norm_grad(cpu, norm.dy, norm.x, norm.w, norm.stats, Tensor{}, dx, dw, false);
    kernels::rms_norm_grad(gpu, dy, x, w, rstd, Tensor{}, dx_gpu, dw_gpu, false);
    expect_same(dx_gpu, dx, tolerance(type));
    expect_same(dw_gpu, dw, sum_tolerance(type));
  });
}

// Rows that do not begin on 16 bytes are computed by the kernels for any address.
TEST(CudaNormGrad, TakesRowsThatAreNotAligned) {
  SKIP_WITHOUT_GPU();
  Rng rng(34);
  Rig cpu;
  constexpr int64_t kTokens = 37, kWidth = 64;
  GpuRig gpu(workspace::cuda::norm_grad(DType::kBF16, kTokens, kWidth, 2));
  Norm norm(DType::kBF16, kTokens, kWidth, 2, rng);
  kernels::layer_norm(cpu, norm.x, norm.w, norm.b, norm.y, norm.stats, kEps);
  const OnGpu dy(norm.dy), x(norm.x), w(norm.w), stats(norm.stats);
  Array dx(DType::kBF16, {kTokens, kWidth}), dw(DType::kF32, {kWidth}), db(dw);
  OnGpu longer(Array(DType::kBF16, {kTokens * kWidth + 1})), dw_gpu(dw), db_gpu(db);
  Tensor dx_gpu(static_cast<Tensor&>(longer).as<std::byte>() + 2, DType::kBF16, {kTokens, kWidth});
  kernels::layer_norm_grad(cpu, norm.dy, norm.x, norm.w, norm.stats, Tensor{}, dx, dw, db, false);
  kernels::layer_norm_grad(gpu, dy, x, w, stats, Tensor{}, dx_gpu, dw_gpu, db_gpu, false);
  expect_same(dw_gpu, dw, sum_tolerance(DType::kBF16));
  expect_same(db_gpu, db, sum_tolerance(DType::kBF16));
  const Array moved = longer.get();
  for (int64_t i = 0; i < dx.size(); ++i) {
    ASSERT_NEAR(moved.get(i + 1), dx.get(i), 0.05) << i;
  }
}

}  // namespace
}  // namespace tessera::kernels::cuda
