#include "kernels/testing/cuda_support.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

TEST(CudaMovement, MatchesTheCpuForEveryTypeAndSize) {
  SKIP_WITHOUT_GPU();
  Rng rng(1);
  Rig cpu;
  GpuRig gpu;
  for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{4096}, int64_t{100003}}) {
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} of {}", count, name_of(type)));
      const Array a = Array(type, {count}).randomise(rng), b = Array(type, {count}).randomise(rng);
      Array y(type, {count}), wide = Array(accumulate_type(type), {count}).randomise(rng);
      OnGpu a_gpu(a), b_gpu(b), y_gpu(y), wide_gpu(wide);
      add(cpu, a, b, y);
      kernels::add(gpu, a_gpu, b_gpu, y_gpu);
      EXPECT_TRUE(y_gpu.get().same_bits(y));
      kernels::scale(cpu, y, 1.5);
      kernels::scale(gpu, y_gpu, 1.5);
      EXPECT_TRUE(y_gpu.get().same_bits(y));
      kernels::accumulate_into(cpu, a, wide);
      kernels::accumulate_into(gpu, a_gpu, wide_gpu);
      EXPECT_TRUE(wide_gpu.get().same_bits(wide));
      for (const DType other : kFloatTypes) {
        Array converted(other, {count});
        OnGpu converted_gpu(converted);
        kernels::copy(cpu, a, converted);
        kernels::copy(gpu, a_gpu, converted_gpu);
        EXPECT_TRUE(converted_gpu.get().same_bits(converted)) << name_of(other);
      }
      kernels::fill_zero(gpu, y_gpu);
      EXPECT_TRUE(y_gpu.get().same_bits(Array(type, {count}).fill(0)));
    }
  }
}

TEST(CudaMovement, TakesAddressesThatAreNotAligned) {
  SKIP_WITHOUT_GPU();
  Rng rng(18);
  Rig cpu;
  GpuRig gpu;
  for (const DType type : kFloatTypes) {
    SCOPED_TRACE(name_of(type));
    const Array a = Array(type, {1001}).randomise(rng);
    Array b = Array(type, {1001}).randomise(rng);
    Array wide = Array(accumulate_type(type), {1001}).randomise(rng);
    OnGpu a_gpu(a), b_gpu(b), wide_gpu(wide);
    const auto compute = [](Context& ctx, const Tensor& one, const Tensor& other,
                            const Tensor& sum) {
      Tensor to = without_first(other), wide_to = without_first(sum);
      kernels::add(ctx, without_first(one), to, to);
      kernels::accumulate_into(ctx, to, wide_to);
      kernels::scale(ctx, wide_to, 0.5);
    };
    compute(cpu, a, b, wide);
    compute(gpu, a_gpu, b_gpu, wide_gpu);
    EXPECT_TRUE(b_gpu.get().same_bits(b));
    EXPECT_TRUE(wide_gpu.get().same_bits(wide));
  }
}

}  // namespace
}  // namespace tessera::kernels::cuda
