#include "kernels/testing/cuda_rows.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

struct Case : PlacedRows {
  double rate;
};
const std::vector<Case> kCases = {{{{8, 1, 0}, 24, 0, 7}, 0.3},    {{{8, 1, 0}, 24, 0, 64}, 0.1},
                                  {{{12, 3, 1}, 12, 0, 65}, 0.5},  {{{16, 2, 0}, 24, 8, 768}, 0.2},
                                  {{{8, 1, 0}, 5, 11, 130}, 0.25}, {{{8, 1, 0}, 5, 0, 66}, 0}};

TEST(CudaDropout, DropsWhatTheCpuDrops) {
  SKIP_WITHOUT_GPU();
  Rng rng(16);
  Rig cpu;
  GpuRig gpu;
  cpu.params().seed = 0x123456789abcdefULL;
  cpu.params().step = 17;
  gpu.set_params(cpu.params());
  for_each_case(kCases, [&](const Case& c, DType type) {
    SCOPED_TRACE(fmt::format("{} x {}, rate {}, {}", c.tokens, c.width, c.rate, name_of(type)));
    const DropoutMask mask{c.rate, /*unit=*/2, DropoutSite::kMlpOutput, /*first_sample=*/5};
    const Array x = Array(type, {c.tokens, c.width}).randomise(rng);
    Array y(type, {c.tokens, c.width});
    OnGpu x_gpu(x), y_gpu(y);
    kernels::dropout(cpu, x, y, mask, c.rows, c.first_token);
    kernels::dropout(gpu, x_gpu, y_gpu, mask, c.rows, c.first_token);
    EXPECT_TRUE(y_gpu.get().same_bits(y));
    kernels::dropout(gpu, x_gpu, x_gpu, mask, c.rows, c.first_token);
    EXPECT_TRUE(x_gpu.get().same_bits(y));
  });
}

}  // namespace
}  // namespace tessera::kernels::cuda
