#include "base/cuda_workspace.h"
#include "kernels/testing/cuda_support.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

struct Sizes {
  int64_t tokens, rows, width, first_row;
};
const std::vector<Sizes> kSizes = {{1, 1, 1, 0},         {10, 6, 35, 10},     {33, 7, 8, 100},
                                   {300, 511, 130, 0},   {1000, 512, 64, 3},  {5000, 3, 72, 0},
                                   {4100, 50304, 16, 0}, {70, 300000, 7, 50}, {2049, 129, 768, 5}};

// Ids of rows here and of some on either side, one of them far more often than the others.
Array ids_of(const Sizes& s, Rng& rng) {
  Array ids(DType::kI32, {s.tokens});
  for (int64_t t = 0; t < s.tokens; ++t) {
    const auto near = static_cast<int64_t>(rng() % static_cast<uint64_t>(s.rows + 6)) - 3;
    const int64_t row = rng() % 4 == 0 ? s.rows / 2 : near;
    ids.set(t, static_cast<double>(s.first_row + row));
  }
  if (s.tokens > 5) ids.set(3, 2000000000);
  return ids;
}

TEST(CudaEmbedding, MatchesTheCpuToTheBit) {
  SKIP_WITHOUT_GPU();
  Rng rng(1);
  Rig cpu;
  for (const Sizes& s : kSizes) {
    GpuRig gpu(workspace::cuda::embedding_dw(s.tokens));
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} of {} x {}, {}", s.tokens, s.rows, s.width, name_of(type)));
      const Array ids = ids_of(s, rng), table = Array(type, {s.rows, s.width}).randomise(rng);
      const Array dy = Array(type, {s.tokens, s.width}).randomise(rng);
      Array y(type, {s.tokens, s.width}), dtable(accumulate_type(type), {s.rows, s.width});
      OnGpu ids_gpu(ids), table_gpu(table), dy_gpu(dy), y_gpu(y), dtable_gpu(dtable);
      kernels::embedding(cpu, ids, table, y, s.first_row);
      kernels::embedding(gpu, ids_gpu, table_gpu, y_gpu, s.first_row);
      EXPECT_TRUE(y_gpu.get().same_bits(y));
      for (const bool accumulate : {false, true}) {
        kernels::embedding_dw(cpu, ids, dy, dtable, s.first_row, accumulate);
        kernels::embedding_dw(gpu, ids_gpu, dy_gpu, dtable_gpu, s.first_row, accumulate);
        EXPECT_TRUE(dtable_gpu.get().same_bits(dtable)) << "accumulate: " << accumulate;
      }
    }
  }
}

TEST(CudaEmbedding, RefusesASmallWorkspace) {
  SKIP_WITHOUT_GPU();
  GpuRig gpu(workspace::cuda::embedding_dw(5) - 1);
  const Array ids = Array(DType::kI32, {5}).fill(0), dy(DType::kF32, {5, 2});
  OnGpu dtable(Array(DType::kF32, {3, 2}));
  EXPECT_THROW(kernels::embedding_dw(gpu, OnGpu(ids), OnGpu(dy), dtable, 0, false), InternalError);
}

}  // namespace
}  // namespace tessera::kernels::cuda
