#include "base/cuda_workspace.h"
#include "kernels/testing/cuda_rows.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

constexpr double kEps = 1e-5;

struct Case {
  int64_t tokens, heads, dim, rest;
};
const std::vector<Case> kCases = {{1, 1, 8, 0},   {5, 3, 7, 4},    {9, 2, 33, 50},
                                  {65, 5, 64, 0}, {7, 3, 64, 200}, {130, 4, 128, 256},
                                  {3, 2, 256, 8}, {2, 0, 16, 40}};

TEST(CudaHeadNorm, MatchesTheCpuForEveryTypeAndShape) {
  SKIP_WITHOUT_GPU();
  Rng rng(15);
  Rig cpu;
  for_each_case(kCases, [&](const Case& c, DType type) {
    SCOPED_TRACE(fmt::format("{} tokens, {} heads of {} and {} more, {}", c.tokens, c.heads, c.dim,
                             c.rest, name_of(type)));
    const int64_t width = c.heads * c.dim + c.rest;
    GpuRig gpu(workspace::cuda::column_sums(type, c.tokens * c.heads, c.dim));
    const Array x = Array(type, {c.tokens, width}).randomise(rng);
    const Array dy = Array(type, {c.tokens, width}).randomise(rng);
    const Array w = Array(type, {c.dim}).randomise(rng);
    Array y(type, {c.tokens, width}), rstd(accumulate_type(type), {c.tokens, c.heads});
    OnGpu x_gpu(x), dy_gpu(dy), w_gpu(w), y_gpu(y), rstd_gpu(rstd);
    kernels::head_norm(cpu, x, w, y, rstd, kEps);
    kernels::head_norm(gpu, x_gpu, w_gpu, y_gpu, rstd_gpu, kEps);
    expect_same(y_gpu, y, tolerance(type));
    expect_same(rstd_gpu, rstd, tolerance(rstd.type()));

    expect_same_sums(
        type, c.dim,
        [&](Tensor& dw, bool accumulate) {
          kernels::head_norm_dw(cpu, dy, x, rstd, dw, accumulate);
        },
        [&](Tensor& dw, bool accumulate) {
          kernels::head_norm_dw(gpu, dy_gpu, x_gpu, rstd_gpu, dw, accumulate);
        });

    Array dx(type, {c.tokens, width});
    OnGpu dx_gpu(dx);
    kernels::head_norm_dx(cpu, dy, x, w, rstd, dx);
    kernels::head_norm_dx(gpu, dy_gpu, x_gpu, w_gpu, rstd_gpu, dx_gpu);
    expect_same(dx_gpu, dx, tolerance(type));
    kernels::head_norm_dx(gpu, dy_gpu, x_gpu, w_gpu, rstd_gpu, dy_gpu);
    EXPECT_TRUE(dy_gpu.get().same_bits(dx_gpu.get()));
  });
}

}  // namespace
}  // namespace tessera::kernels::cuda
