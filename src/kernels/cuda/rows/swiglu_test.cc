#include "kernels/testing/cuda_rows.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

TEST(CudaSwiglu, MatchesTheCpuForEveryTypeAndSize) {
  SKIP_WITHOUT_GPU();
  Rng rng(5);
  Rig cpu;
  GpuRig gpu;
  for_each_size(kRowSizes, [&](DType type, int64_t tokens, int64_t width) {
    const Array gate_up = Array(type, {tokens, 2 * width}).randomise(rng, 2);
    const Array dh = Array(type, {tokens, width}).randomise(rng);
    Array h(type, {tokens, width}), d_gate_up(type, {tokens, 2 * width});
    OnGpu gate_up_gpu(gate_up), dh_gpu(dh), h_gpu(h), d_gate_up_gpu(d_gate_up);
    kernels::swiglu(cpu, gate_up, h);
    kernels::swiglu(gpu, gate_up_gpu, h_gpu);
    expect_same(h_gpu, h, tolerance(type));
    kernels::swiglu_grad(cpu, dh, gate_up, d_gate_up);
    kernels::swiglu_grad(gpu, dh_gpu, gate_up_gpu, d_gate_up_gpu);
    expect_same(d_gate_up_gpu, d_gate_up, tolerance(type));
    kernels::swiglu_grad(gpu, dh_gpu, gate_up_gpu, gate_up_gpu);
    EXPECT_TRUE(gate_up_gpu.get().same_bits(d_gate_up_gpu.get()));
  });
}

}  // namespace
}  // namespace tessera::kernels::cuda
