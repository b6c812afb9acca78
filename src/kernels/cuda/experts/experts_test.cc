#include "kernels/experts.h"

#include "kernels/testing/cuda_support.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

// Blocks of `capacity` rows, with how many rows each expert has in each of them.
struct Layout {
  int64_t capacity;
  std::vector<std::vector<int>> counts;

  [[nodiscard]] int64_t blocks() const { return static_cast<int64_t>(counts.size()); }
  [[nodiscard]] int64_t local() const { return static_cast<int64_t>(counts[0].size()); }
  [[nodiscard]] Array tensor() const {
    Array array(DType::kI32, {blocks(), local()});
    int64_t i = 0;
    for (const auto& block : counts) {
      for (const int count : block) array.set(i++, count);
    }
    return array;
  }
};
// One expert, none at all, experts without rows, full blocks, more than a tile, many small ones.
const std::vector<Layout> kLayouts = {
    {1, {{1}}},
    {5, {{0, 0}}},
    {7, {{0, 3, 0, 2}, {7, 0, 0, 0}}},
    {300, {{130, 0, 170}}},
    {260, {{1, 200, 3, 40}, {129, 0, 66, 65}, {0, 0, 0, 0}}},
    {24, {{1, 2, 3, 4, 5, 6, 1, 0}, {0, 0, 9, 0, 7, 0, 0, 8}, {3, 3, 3, 3, 3, 3, 3, 3}}}};

struct Widths {
  int64_t in, out;
};
// For plain arithmetic and, last, for the tensor cores.
const std::vector<Widths> kWidths = {{1, 7}, {33, 65}, {130, 130}, {8, 16}, {136, 264}, {128, 128}};

double sum_tolerance(DType type) { return type == DType::kF64 ? 1e-12 : 2e-5; }

int64_t cpu_bytes(DType type, const Layout& layout, const Widths& width) {
  return workspace::linear(type, layout.capacity, width.out, width.in, 1);
}

std::string name_of_case(DType type, const Layout& layout, const Widths& width) {
  return fmt::format("{}, {} blocks of {} rows, {} experts, {} > {}", name_of(type),
                     layout.blocks(), layout.capacity, layout.local(), width.in, width.out);
}

template <typename F>
void for_each_case(const F& f) {
  for (const Layout& layout : kLayouts) {
    for (const Widths& width : kWidths) {
      for (const DType type : kFloatTypes) {
        SCOPED_TRACE(name_of_case(type, layout, width));
        f(type, layout, width);
      }
    }
  }
}

TEST(CudaExperts, LinearAndItsGradientMatchTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(31);
  GpuRig gpu;
  for_each_case([&](DType type, const Layout& l, const Widths& width) {
    Rig cpu(1, cpu_bytes(type, l, width));
    // Rows that nobody has hold garbage here: they must not matter.
    const Array x = Array(type, {l.blocks(), l.capacity, width.in}).randomise(rng);
    const Array dy = Array(type, {l.blocks(), l.capacity, width.out}).randomise(rng);
    const Array w = Array(type, {l.local(), width.out, width.in}).randomise(rng);
    const Array counts = l.tensor();
    Array y(type, {l.blocks(), l.capacity, width.out}),
        dx(type, {l.blocks(), l.capacity, width.in});
    const OnGpu x_gpu(x), dy_gpu(dy), w_gpu(w), counts_gpu(counts);
    OnGpu y_gpu(y), dx_gpu(dx);
    kernels::expert_linear(cpu, x, w, counts, y);
    kernels::expert_linear(gpu, x_gpu, w_gpu, counts_gpu, y_gpu);
    expect_same(y_gpu, y, tolerance(type));
    kernels::expert_linear_dx(cpu, dy, w, counts, dx);
    kernels::expert_linear_dx(gpu, dy_gpu, w_gpu, counts_gpu, dx_gpu);
    expect_same(dx_gpu, dx, tolerance(type));
  });
}

TEST(CudaExperts, WeightGradientMatchesTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(32);
  GpuRig gpu;
  for_each_case([&](DType type, const Layout& l, const Widths& width) {
    Rig cpu(1, cpu_bytes(type, l, width));
    const Array x = Array(type, {l.blocks(), l.capacity, width.in}).randomise(rng);
    const Array dy = Array(type, {l.blocks(), l.capacity, width.out}).randomise(rng);
    const Array counts = l.tensor();
    Array dw(accumulate_type(type), {l.local(), width.out, width.in});
    const OnGpu x_gpu(x), dy_gpu(dy), counts_gpu(counts);
    OnGpu dw_gpu(dw);
    for (const bool accumulate : {false, true}) {
      kernels::expert_linear_dw(cpu, dy, x, counts, dw, accumulate);
      kernels::expert_linear_dw(gpu, dy_gpu, x_gpu, counts_gpu, dw_gpu, accumulate);
      expect_same(dw_gpu, dw, sum_tolerance(type));
    }
  });
}

TEST(CudaExperts, SwigluAndItsGradientMatchTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(33);
  GpuRig gpu;
  for_each_case([&](DType type, const Layout& l, const Widths& width) {
    Rig cpu;
    const int64_t inner = width.out;
    const Array gate_up = Array(type, {l.blocks(), l.capacity, 2 * inner}).randomise(rng);
    const Array dh = Array(type, {l.blocks(), l.capacity, inner}).randomise(rng);
    const Array counts = l.tensor();
    Array h(type, {l.blocks(), l.capacity, inner});
    Array d_gate_up(type, {l.blocks(), l.capacity, 2 * inner});
    const OnGpu gate_up_gpu(gate_up), dh_gpu(dh), counts_gpu(counts);
    OnGpu h_gpu(h), d_gate_up_gpu(d_gate_up), in_place(gate_up);
    kernels::expert_swiglu(cpu, gate_up, counts, h);
    kernels::expert_swiglu(gpu, gate_up_gpu, counts_gpu, h_gpu);
    expect_same(h_gpu, h, tolerance(type));
    kernels::expert_swiglu_grad(cpu, dh, gate_up, counts, d_gate_up);
    kernels::expert_swiglu_grad(gpu, dh_gpu, gate_up_gpu, counts_gpu, d_gate_up_gpu);
    expect_same(d_gate_up_gpu, d_gate_up, tolerance(type));
    kernels::expert_swiglu_grad(gpu, dh_gpu, in_place, counts_gpu, in_place);
    EXPECT_TRUE(in_place.get().same_bits(d_gate_up_gpu.get()));
  });
}

TEST(CudaExperts, LargeProductsMatchTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(34);
  GpuRig gpu;
  const Layout l{1024, {{300, 500, 0, 224}}};
  const Widths width{768, 2304};
  const DType type = DType::kBF16;
  Rig cpu(1, cpu_bytes(type, l, width));
  const Array x = Array(type, {1, l.capacity, width.in}).randomise(rng);
  const Array dy = Array(type, {1, l.capacity, width.out}).randomise(rng);
  const Array w = Array(type, {l.local(), width.out, width.in}).randomise(rng);
  const Array counts = l.tensor();
  Array y(type, {1, l.capacity, width.out}), dx(type, {1, l.capacity, width.in});
  Array dw(accumulate_type(type), {l.local(), width.out, width.in});
  const OnGpu x_gpu(x), dy_gpu(dy), w_gpu(w), counts_gpu(counts);
  OnGpu y_gpu(y), dx_gpu(dx), dw_gpu(dw);
  kernels::expert_linear(cpu, x, w, counts, y);
  kernels::expert_linear_dx(cpu, dy, w, counts, dx);
  kernels::expert_linear_dw(cpu, dy, x, counts, dw, false);
  for (int i = 0; i < 3; ++i) {  // again and again: the same bits
    OnGpu y_again(Array(type, {1, l.capacity, width.out}));
    OnGpu dx_again(Array(type, {1, l.capacity, width.in}));
    OnGpu dw_again(Array(accumulate_type(type), {l.local(), width.out, width.in}));
    kernels::expert_linear(gpu, x_gpu, w_gpu, counts_gpu, i == 0 ? y_gpu : y_again);
    kernels::expert_linear_dx(gpu, dy_gpu, w_gpu, counts_gpu, i == 0 ? dx_gpu : dx_again);
    kernels::expert_linear_dw(gpu, dy_gpu, x_gpu, counts_gpu, i == 0 ? dw_gpu : dw_again, false);
    if (i == 0) continue;
    EXPECT_TRUE(y_again.get().same_bits(y_gpu.get()));
    EXPECT_TRUE(dx_again.get().same_bits(dx_gpu.get()));
    EXPECT_TRUE(dw_again.get().same_bits(dw_gpu.get()));
  }
  expect_same(y_gpu, y, tolerance(type));
  expect_same(dx_gpu, dx, tolerance(type));
  expect_same(dw_gpu, dw, sum_tolerance(type));
}

}  // namespace
}  // namespace tessera::kernels::cuda
