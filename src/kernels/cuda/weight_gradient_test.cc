// Weight gradients stored as bf16: what the CPU gets, and the rounded f32 ones.
#include "kernels/testing/cuda_support.h"
#include "kernels/testing/weight_gradient_cases.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

// Shapes of the scalar and of the packed paths.
const std::vector<std::pair<int64_t, int64_t>> kShapes = {{1, 7},     {7, 8},      {130, 65},
                                                          {700, 136}, {1030, 768}, {3000, 130}};

TEST(CudaWeightGradients, AreRoundedToBf16AsOnTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(75);
  for (const auto& [tokens, width] : kShapes) {
    for (const WeightGradientCase& c : weight_gradient_cases(tokens, width, 1, rng)) {
      SCOPED_TRACE(fmt::format("{}, {} x {}", c.name, tokens, width));
      Rig cpu(1, c.cpu_bytes);
      GpuRig gpu(c.gpu_bytes);
      const std::vector<Tensor> in(c.inputs.begin(), c.inputs.end());
      std::vector<OnGpu> inputs(c.inputs.begin(), c.inputs.end());
      const std::vector<Tensor> in_gpu(inputs.begin(), inputs.end());
      Array expected = c.gradient, narrow = convert(c.gradient, DType::kBF16);
      OnGpu wide_gpu(expected), narrow_gpu(narrow), again(narrow);
      c.run(cpu, in, expected, false);
      c.run(gpu, in_gpu, wide_gpu, false);
      c.run(gpu, in_gpu, narrow_gpu, false);
      // Products may take another algorithm for another type; all others round the same sum.
      expect_close(narrow_gpu.get(), wide_gpu.get().values(), 1.01 * kBf16Rounding);
      expect_same(narrow_gpu, expected, tolerance(DType::kBF16));
      c.run(gpu, in_gpu, again, false);
      EXPECT_TRUE(again.get().same_bits(narrow_gpu.get()));

      c.run(cpu, in, narrow, false);
      c.run(cpu, in, narrow, true);
      c.run(gpu, in_gpu, narrow_gpu, true);
      c.run(gpu, in_gpu, again, true);
      expect_same(narrow_gpu, narrow, tolerance(DType::kBF16));
      EXPECT_TRUE(again.get().same_bits(narrow_gpu.get()));
    }
  }
}

// A weight may begin anywhere in its bucket.
TEST(CudaWeightGradients, TakeAddressesThatAreNotAligned) {
  SKIP_WITHOUT_GPU();
  Rng rng(76);
  for (const WeightGradientCase& c : weight_gradient_cases(130, 64, 1, rng)) {
    SCOPED_TRACE(c.name);
    Rig cpu(1, c.cpu_bytes);
    GpuRig gpu(c.gpu_bytes);
    const std::vector<Tensor> in(c.inputs.begin(), c.inputs.end());
    std::vector<OnGpu> inputs(c.inputs.begin(), c.inputs.end());
    const std::vector<Tensor> in_gpu(inputs.begin(), inputs.end());
    Array expected = Array(DType::kBF16, {c.gradient.size() + 1}).fill(5);
    OnGpu actual(expected);
    const auto moved = [&](const Tensor& whole) {
      Tensor part = c.gradient.tensor();
      part.dtype = DType::kBF16;
      part.data = whole.as<std::byte>() + size_bytes(DType::kBF16);
      return part;
    };
    Tensor to = moved(expected), to_gpu = moved(actual);
    for (const bool accumulate : {false, true}) {
      c.run(cpu, in, to, accumulate);
      c.run(gpu, in_gpu, to_gpu, accumulate);
      expect_same(actual, expected, tolerance(DType::kBF16));
    }
  }
}

TEST(CudaWeightGradients, OfBf16AddUpAsOnTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(77);
  Rig cpu;
  GpuRig gpu;
  for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{4096}, int64_t{100003}}) {
    const Array x = Array(DType::kBF16, {count}).randomise(rng);
    Array sum = Array(DType::kBF16, {count}).randomise(rng);
    OnGpu x_gpu(x), sum_gpu(sum);
    kernels::accumulate_into(cpu, x, sum);
    kernels::accumulate_into(gpu, x_gpu, sum_gpu);
    EXPECT_TRUE(sum_gpu.get().same_bits(sum)) << count;
  }
}

}  // namespace
}  // namespace tessera::kernels::cuda
