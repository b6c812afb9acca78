#include "kernels/testing/cuda_rows.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

struct Case {
  int64_t tokens, seq_len, heads, half, rest;
};
const std::vector<Case> kCases = {{6, 3, 1, 1, 0},    {10, 5, 3, 4, 5},   {7, 7, 2, 3, 0},
                                  {12, 4, 5, 32, 8},  {8, 8, 4, 64, 128}, {4, 2, 0, 32, 64},
                                  {130, 65, 8, 32, 0}};

TEST(CudaRope, MatchesTheCpuForEveryTypeAndShape) {
  SKIP_WITHOUT_GPU();
  Rng rng(13);
  Rig cpu;
  GpuRig gpu;
  for_each_case(kCases, [&](const Case& c, DType type) {
    for (const bool inverse : {false, true}) {
      SCOPED_TRACE(fmt::format("{} heads of {} and {} more, {}, inverse {}", c.heads, 2 * c.half,
                               c.rest, name_of(type), inverse));
      const int64_t width = c.heads * 2 * c.half + c.rest;
      const Array x = Array(type, {c.tokens, width}).randomise(rng);
      Array cos(accumulate_type(type), {c.seq_len, c.half}), sin(cos);
      for (int64_t i = 0; i < cos.size(); ++i) {
        cos.set(i, std::cos(0.1 * static_cast<double>(i)));
        sin.set(i, std::sin(0.1 * static_cast<double>(i)));
      }
      Array y(type, {c.tokens, width});
      OnGpu x_gpu(x), cos_gpu(cos), sin_gpu(sin), y_gpu(y);
      kernels::rope(cpu, x, cos, sin, y, c.heads, inverse);
      kernels::rope(gpu, x_gpu, cos_gpu, sin_gpu, y_gpu, c.heads, inverse);
      expect_same(y_gpu, y, tolerance(type));
      kernels::rope(gpu, x_gpu, cos_gpu, sin_gpu, x_gpu, c.heads, inverse);
      EXPECT_TRUE(x_gpu.get().same_bits(y_gpu.get()));
    }
  });
}

}  // namespace
}  // namespace tessera::kernels::cuda
