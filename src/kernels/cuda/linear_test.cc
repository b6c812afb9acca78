#include "base/cuda_workspace.h"
#include "kernels/testing/cuda_support.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

struct Sizes {
  int64_t tokens, out, in;
};
const std::vector<Sizes> kSizes = {{1, 1, 1},    {7, 1, 33},       {1, 130, 7},    {33, 7, 130},
                                   {130, 33, 1}, {65, 130, 33},    {128, 256, 64}, {130, 130, 130},
                                   {7, 7, 7},    {1024, 2304, 768}};

// Sums of another order, in the type of `type`'s sums.
double sum_tolerance(DType type) { return type == DType::kF64 ? 1e-12 : 2e-5; }

int64_t cpu_bytes(DType type, const Sizes& s) {
  return workspace::linear(type, s.tokens, s.out, s.in, 1);
}

TEST(CudaLinear, MatchesTheCpuForEveryTypeAndShape) {
  SKIP_WITHOUT_GPU();
  Rng rng(11);
  GpuRig gpu(workspace::cuda::kMatmulBytes);
  for (const Sizes& s : kSizes) {
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} {}x{}x{}", name_of(type), s.tokens, s.out, s.in));
      Rig cpu(1, cpu_bytes(type, s));
      const Array x = Array(type, {s.tokens, s.in}).randomise(rng);
      const Array w = Array(type, {s.out, s.in}).randomise(rng);
      const Array dy = Array(type, {s.tokens, s.out}).randomise(rng);
      Array y(type, {s.tokens, s.out}), dx(type, {s.tokens, s.in});
      Array dw(accumulate_type(type), {s.out, s.in});
      const OnGpu x_gpu(x), w_gpu(w), dy_gpu(dy);
      OnGpu y_gpu(y), dx_gpu(dx), dw_gpu(dw);
      for (const bool accumulate : {false, true}) {
        kernels::linear(cpu, x, w, y);
        kernels::linear_dx(cpu, dy, w, dx, accumulate);
        kernels::linear_dw(cpu, dy, x, dw, accumulate);
        kernels::linear(gpu, x_gpu, w_gpu, y_gpu);
        kernels::linear_dx(gpu, dy_gpu, w_gpu, dx_gpu, accumulate);
        kernels::linear_dw(gpu, dy_gpu, x_gpu, dw_gpu, accumulate);
        expect_same(y_gpu, y, tolerance(type));
        expect_same(dx_gpu, dx, tolerance(type));
        expect_same(dw_gpu, dw, sum_tolerance(type));
      }
    }
  }
}

// The matrix that begins at element 1 of an array.
Tensor shifted(Tensor array, int64_t rows, int64_t cols) {
  return {array.as<std::byte>() + size_bytes(array.dtype), array.dtype, {rows, cols}};
}

TEST(CudaLinear, TakesAddressesThatAreOnlyAlignedToElements) {
  SKIP_WITHOUT_GPU();
  Rng rng(12);
  GpuRig gpu(workspace::cuda::kMatmulBytes);
  const Sizes s{40, 64, 48};
  for (const DType type : kFloatTypes) {
    SCOPED_TRACE(name_of(type));
    Rig cpu(1, cpu_bytes(type, s));
    Array x = Array(type, {1 + s.tokens * s.in}).randomise(rng);
    Array w = Array(type, {1 + s.out * s.in}).randomise(rng);
    Array y = Array(type, {1 + s.tokens * s.out}).fill(5);
    OnGpu x_gpu(x), w_gpu(w), y_gpu(y);
    Tensor out = shifted(y, s.tokens, s.out), out_gpu = shifted(y_gpu, s.tokens, s.out);
    kernels::linear(cpu, shifted(x, s.tokens, s.in), shifted(w, s.out, s.in), out);
    kernels::linear(gpu, shifted(x_gpu, s.tokens, s.in), shifted(w_gpu, s.out, s.in), out_gpu);
    expect_same(y_gpu, y, tolerance(type));
  }
}

TEST(CudaLinear, NoTokensGiveZeroWeightGradients) {
  SKIP_WITHOUT_GPU();
  GpuRig gpu(workspace::cuda::kMatmulBytes);
  for (const DType type : kFloatTypes) {
    const Array none_out(type, {0, 3}), none_in(type, {0, 5}), w = Array(type, {3, 5}).fill(1);
    Array dw(accumulate_type(type), {3, 5});
    const OnGpu dy_gpu(none_out), x_gpu(none_in), w_gpu(w);
    OnGpu y_gpu(none_out), dx_gpu(none_in), dw_gpu(dw), kept_gpu(Array(dw).fill(2));
    kernels::linear(gpu, x_gpu, w_gpu, y_gpu);
    kernels::linear_dx(gpu, dy_gpu, w_gpu, dx_gpu, false);
    kernels::linear_dw(gpu, dy_gpu, x_gpu, dw_gpu, false);
    kernels::linear_dw(gpu, dy_gpu, x_gpu, kept_gpu, true);
    EXPECT_EQ(dw_gpu.get().values(), std::vector<double>(15, 0.0));
    EXPECT_EQ(kept_gpu.get().values(), std::vector<double>(15, 2.0));
  }
}

TEST(CudaLinear, RepeatsBitForBit) {
  SKIP_WITHOUT_GPU();
  Rng rng(13);
  const Sizes s{4096, 192, 256};  // a long sum for few results: where parts of it meet
  for (const DType type : kFloatTypes) {
    SCOPED_TRACE(name_of(type));
    const Array x = Array(type, {s.tokens, s.in}).randomise(rng);
    const Array dy = Array(type, {s.tokens, s.out}).randomise(rng);
    const Array dw(accumulate_type(type), {s.out, s.in});
    const OnGpu x_gpu(x), dy_gpu(dy);
    OnGpu first_gpu(dw), again_gpu(dw);
    GpuRig first(workspace::cuda::kMatmulBytes), again(workspace::cuda::kMatmulBytes);
    kernels::linear_dw(first, dy_gpu, x_gpu, first_gpu, false);
    for (int i = 0; i < 5; ++i) {
      kernels::linear_dw(again, dy_gpu, x_gpu, again_gpu, false);
      EXPECT_TRUE(first_gpu.get().same_bits(again_gpu.get()));
    }
  }
}

TEST(CudaLinear, RefusesASmallWorkspace) {
  SKIP_WITHOUT_GPU();
  GpuRig gpu(1024);
  const OnGpu x(Array(DType::kF32, {4, 3})), w(Array(DType::kF32, {5, 3}));
  OnGpu y(Array(DType::kF32, {4, 5}));
  EXPECT_THROW(kernels::linear(gpu, x, w, y), InternalError);
}

}  // namespace
}  // namespace tessera::kernels::cuda
