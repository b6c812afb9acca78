#include "base/cuda_workspace.h"
#include "kernels/testing/cuda_rows.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

TEST(CudaBias, AddsAsTheCpuDoes) {
  SKIP_WITHOUT_GPU();
  Rng rng(2);
  Rig cpu;
  GpuRig gpu;
  for_each_size(kRowSizes, [&](DType type, int64_t tokens, int64_t width) {
    const Array x = Array(type, {tokens, width}).randomise(rng);
    const Array b = Array(type, {width}).randomise(rng);
    Array y(type, {tokens, width});
    OnGpu x_gpu(x), b_gpu(b), y_gpu(y);
    kernels::add_bias(cpu, x, b, y);
    kernels::add_bias(gpu, x_gpu, b_gpu, y_gpu);
    EXPECT_TRUE(y_gpu.get().same_bits(y));
    kernels::add_bias(gpu, x_gpu, b_gpu, x_gpu);
    EXPECT_TRUE(x_gpu.get().same_bits(y));
  });
}

TEST(CudaBias, SumsGradientsAsTheCpuDoes) {
  SKIP_WITHOUT_GPU();
  Rng rng(3);
  Rig cpu;
  for_each_size(kRowSizes, [&](DType type, int64_t tokens, int64_t width) {
    GpuRig gpu(workspace::cuda::column_sums(type, tokens, width));
    const Array dy = Array(type, {tokens, width}).randomise(rng);
    const OnGpu dy_gpu(dy);
    expect_same_sums(
        type, width,
        [&](Tensor& db, bool accumulate) { kernels::bias_dw(cpu, dy, db, accumulate); },
        [&](Tensor& db, bool accumulate) { kernels::bias_dw(gpu, dy_gpu, db, accumulate); });
  });
}

TEST(CudaBias, RefusesAWorkspaceThatIsTooSmall) {
  SKIP_WITHOUT_GPU();
  GpuRig gpu(workspace::cuda::column_sums(DType::kBF16, 1000, 768) - 64);
  OnGpu dy(Array(DType::kBF16, {1000, 768}).fill(1)), db(Array(DType::kF32, {768}));
  EXPECT_THROW(kernels::bias_dw(gpu, dy, db, false), InternalError);
}

}  // namespace
}  // namespace tessera::kernels::cuda
