#include "kernels/testing/cuda_rows.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

// Whole sequences; a part of each; all parts; and rows that begin within a sequence.
const std::vector<PlacedRows> kCases = {{{8, 1, 0}, 24, 0, 7},
                                        {{8, 1, 0}, 24, 0, 64},
                                        {{12, 3, 1}, 12, 0, 65},
                                        {{16, 2, 1}, 24, 0, 768},
                                        {{16, 2, SequenceRows::kAllParts}, 48, 0, 16},
                                        {{8, 1, 0}, 5, 11, 130},
                                        {{8, 1, 0}, 29, 3, 40},
                                        {{5, 1, 0}, 0, 0, 8}};

TEST(CudaPositions, MatchTheCpuBitForBit) {
  SKIP_WITHOUT_GPU();
  Rng rng(14);
  Rig cpu;
  GpuRig gpu;
  for_each_case(kCases, [&](const PlacedRows& c, DType type) {
    SCOPED_TRACE(fmt::format("{} tokens from {} of sequences of {} in {} parts, width {}, {}",
                             c.tokens, c.first_token, c.rows.seq_len, c.rows.parts, c.width,
                             name_of(type)));
    const int64_t positions = c.rows.seq_len + 2;
    const Array x = Array(type, {c.tokens, c.width}).randomise(rng);
    const Array table = Array(type, {positions, c.width}).randomise(rng);
    Array y(type, {c.tokens, c.width});
    OnGpu x_gpu(x), table_gpu(table), y_gpu(y);
    kernels::add_positions(cpu, x, table, y, c.rows, c.first_token);
    kernels::add_positions(gpu, x_gpu, table_gpu, y_gpu, c.rows, c.first_token);
    EXPECT_TRUE(y_gpu.get().same_bits(y));

    Array dtable(accumulate_type(type), {positions, c.width});
    OnGpu dtable_gpu(dtable);
    for (const bool accumulate : {false, true}) {
      kernels::positions_dw(cpu, x, dtable, c.rows, c.first_token, accumulate);
      kernels::positions_dw(gpu, x_gpu, dtable_gpu, c.rows, c.first_token, accumulate);
      EXPECT_TRUE(dtable_gpu.get().same_bits(dtable));
    }
    kernels::add_positions(gpu, x_gpu, table_gpu, x_gpu, c.rows, c.first_token);
    EXPECT_TRUE(x_gpu.get().same_bits(y));
  });
}

}  // namespace
}  // namespace tessera::kernels::cuda
