#include "kernels/testing/cuda_support.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

TEST(CudaGelu, MatchesTheCpuForEveryTypeAndSize) {
  SKIP_WITHOUT_GPU();
  Rng rng(4);
  Rig cpu;
  GpuRig gpu;
  for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{4096}, int64_t{100003}}) {
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} of {}", count, name_of(type)));
      const Array x = Array(type, {count}).randomise(rng, 3);
      const Array dh = Array(type, {count}).randomise(rng);
      Array h(type, {count}), dx(type, {count});
      OnGpu x_gpu(x), dh_gpu(dh), h_gpu(h), dx_gpu(dx);
      kernels::gelu(cpu, x, h);
      kernels::gelu(gpu, x_gpu, h_gpu);
      expect_same(h_gpu, h, tolerance(type));
      kernels::gelu_grad(cpu, dh, x, dx);
      kernels::gelu_grad(gpu, dh_gpu, x_gpu, dx_gpu);
      expect_same(dx_gpu, dx, tolerance(type));
      // In place, each of the two.
      OnGpu over_x(x);
      kernels::gelu_grad(gpu, dh_gpu, over_x, over_x);
      EXPECT_TRUE(over_x.get().same_bits(dx_gpu.get()));
      kernels::gelu_grad(gpu, dh_gpu, x_gpu, dh_gpu);
      EXPECT_TRUE(dh_gpu.get().same_bits(dx_gpu.get()));
      kernels::gelu(gpu, x_gpu, x_gpu);
      EXPECT_TRUE(x_gpu.get().same_bits(h_gpu.get()));
    }
  }
}

TEST(CudaGelu, IsFiniteFarOut) {
  SKIP_WITHOUT_GPU();
  GpuRig gpu;
  for (const DType type : kFloatTypes) {
    Array x(type, {4});
    int64_t i = 0;
    for (const double value : {-60000, -30, 30, 60000}) x.set(i++, value);
    OnGpu x_gpu(x), h_gpu(Array(type, {4}));
    kernels::gelu(gpu, x_gpu, h_gpu);
    const Array h = h_gpu.get();
    EXPECT_EQ(h.get(0), 0) << name_of(type);
    EXPECT_NEAR(h.get(1), 0, 1e-12) << name_of(type);
    EXPECT_EQ(h.get(2), 30) << name_of(type);
    EXPECT_EQ(h.get(3), x.get(3)) << name_of(type);
  }
}

}  // namespace
}  // namespace tessera::kernels::cuda
