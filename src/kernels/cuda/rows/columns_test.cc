#include "kernels/testing/cuda_rows.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

struct Case {
  int64_t tokens, ranks, groups, run;
};
const std::vector<Case> kCases = {{1, 1, 1, 1},   {3, 2, 1, 7}, {5, 3, 2, 5},
                                  {65, 4, 3, 64}, {7, 2, 4, 8}, {130, 1, 2, 24}};

TEST(CudaColumns, SplitAndJoinAsTheCpuDoes) {
  SKIP_WITHOUT_GPU();
  Rng rng(17);
  Rig cpu;
  GpuRig gpu;
  for_each_case(kCases, [&](const Case& c, DType type) {
    SCOPED_TRACE(fmt::format("{} tokens, {} ranks, {} groups, runs of {}, {}", c.tokens, c.ranks,
                             c.groups, c.run, name_of(type)));
    const int64_t width = c.ranks * c.groups * c.run;
    const Array x = Array(type, {c.tokens, width}).randomise(rng);
    Array blocks(type, {c.ranks, c.tokens, c.groups * c.run});
    OnGpu x_gpu(x), blocks_gpu(blocks), back_gpu(Array(type, {c.tokens, width}));
    kernels::split_columns(cpu, x, blocks, c.groups);
    kernels::split_columns(gpu, x_gpu, blocks_gpu, c.groups);
    EXPECT_TRUE(blocks_gpu.get().same_bits(blocks));
    kernels::join_columns(gpu, blocks_gpu, back_gpu, c.groups);
    EXPECT_TRUE(back_gpu.get().same_bits(x));
  });
}

}  // namespace
}  // namespace tessera::kernels::cuda
