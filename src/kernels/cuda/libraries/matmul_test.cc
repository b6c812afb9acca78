#include "kernels/cuda/libraries/matmul.h"

#include <filesystem>

#include "base/cuda_workspace.h"
#include "kernels/testing/cuda_support.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

constexpr int64_t kTokens = 136, kOut = 192, kIn = 160;
const std::vector<DType> kNarrowTypes = {DType::kBF16, DType::kF16};

// Inputs in a storage type, and what the CPU makes of them in f64.
struct Case {
  explicit Case(DType type_in, Rng& rng)
      : type(type_in),
        x(Array(type, {kTokens, kIn}).randomise(rng)),
        w(Array(type, {kOut, kIn}).randomise(rng, 0.1)),
        bias(Array(type, {kOut}).randomise(rng)),
        dy(Array(type, {kTokens, kOut}).randomise(rng)) {}

  [[nodiscard]] Array exact(const Array& array) const { return convert(array, DType::kF64); }
  // x w^T + bias
  Array biased() {
    Array y(DType::kF64, {kTokens, kOut});
    kernels::linear(cpu, exact(x), exact(w), y);
    kernels::add_bias(cpu, y, exact(bias), y);
    return y;
  }

  DType type;
  Rig cpu;
  Array x, w, bias, dy;
};

Product forward(DType type, Epilogue epilogue) {
  return {.type = type,
          .out = type,
          .m = kTokens,
          .n = kOut,
          .k = kIn,
          .transpose_b = true,
          .epilogue = epilogue};
}

void* data_of(const Tensor& tensor) { return tensor.data; }

void multiply(GpuRig& rig, const Product& product, const ProductData& data) {
  ASSERT_TRUE(rig.gpu().matmul().serves(product, data));
  rig.gpu().matmul().run(product, data, static_cast<Context&>(rig).workspace);
}

// Calls f(rig, case) with random inputs of every narrow type.
template <typename F>
void for_each_type(uint64_t seed, const F& f) {
  Rng rng(seed);
  GpuRig rig(workspace::cuda::kMatmulBytes);
  for (const DType type : kNarrowTypes) {
    SCOPED_TRACE(name_of(type));
    Case c(type, rng);
    f(rig, c);
  }
}

TEST(CudaMatmul, AddsABias) {
  SKIP_WITHOUT_GPU();
  for_each_type(21, [](GpuRig& rig, Case& c) {
    const OnGpu x(c.x), w(c.w), bias(c.bias);
    const OnGpu y(Array(c.type, {kTokens, kOut}));
    const Product product = forward(c.type, Epilogue::kBias);
    const ProductData data{data_of(x), data_of(w), data_of(y), data_of(bias)};
    multiply(rig, product, data);
    expect_same(y, c.biased(), tolerance(c.type));
  });
}

TEST(CudaMatmul, AppliesGeluAndKeepsItsInput) {
  SKIP_WITHOUT_GPU();
  for_each_type(22, [](GpuRig& rig, Case& c) {
    const OnGpu x(c.x), w(c.w), bias(c.bias);
    const OnGpu y(Array(c.type, {kTokens, kOut})), before(Array(c.type, {kTokens, kOut}));
    const Product product = forward(c.type, Epilogue::kGelu);
    const ProductData data{data_of(x), data_of(w), data_of(y), data_of(bias), data_of(before)};
    multiply(rig, product, data);
    Array want = c.biased();
    expect_same(before, want, tolerance(c.type));
    kernels::gelu(c.cpu, want, want);
    expect_same(y, want, tolerance(c.type));
  });
}

TEST(CudaMatmul, MultipliesByTheGradientOfGelu) {
  SKIP_WITHOUT_GPU();
  for_each_type(23, [](GpuRig& rig, Case& c) {
    const OnGpu dy(c.dy), w(c.w), before(c.x);
    const OnGpu dx(Array(c.type, {kTokens, kIn}));
    const Product product{.type = c.type,
                          .out = c.type,
                          .m = kTokens,
                          .n = kIn,
                          .k = kOut,
                          .epilogue = Epilogue::kGeluGrad};
    const ProductData data{data_of(dy), data_of(w), data_of(dx), nullptr, data_of(before)};
    multiply(rig, product, data);
    Array want(DType::kF64, {kTokens, kIn});
    kernels::linear_dx(c.cpu, c.exact(c.dy), c.exact(c.w), want, false);
    kernels::gelu_grad(c.cpu, want, c.exact(c.x), want);
    expect_same(dx, want, tolerance(c.type));
  });
}

TEST(CudaMatmul, TunesAndRemembersItsChoice) {
  SKIP_WITHOUT_GPU();
  Rng rng(25);
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / "tessera_matmul_choices").string();
  std::filesystem::remove(path);
  Case c(DType::kBF16, rng);
  const OnGpu x(c.x), w(c.w);
  const OnGpu y(Array(DType::kBF16, {kTokens, kOut})), again(Array(DType::kBF16, {kTokens, kOut}));
  const Product product = forward(DType::kBF16, Epilogue::kNone);
  const ProductData data{data_of(x), data_of(w), data_of(y)};
  {
    GpuRig rig(workspace::cuda::kMatmulBytes);
    Matmul& matmul = rig.gpu().matmul();
    matmul.keep_choices_in(path);
    matmul.tune_at_first_use(true);
    matmul.run(product, data, static_cast<Context&>(rig).workspace);
    Array want(DType::kF64, {kTokens, kOut});
    kernels::linear(c.cpu, c.exact(c.x), c.exact(c.w), want);
    expect_same(y, want, tolerance(DType::kBF16));
  }
  EXPECT_GT(std::filesystem::file_size(path), 128U);
  GpuRig rig(workspace::cuda::kMatmulBytes);
  rig.gpu().matmul().keep_choices_in(path);
  rig.gpu().matmul().run(product, {data_of(x), data_of(w), data_of(again)},
                         static_cast<Context&>(rig).workspace);
  EXPECT_TRUE(y.get().same_bits(again.get()));
}

}  // namespace
}  // namespace tessera::kernels::cuda
