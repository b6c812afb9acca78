// Speed of the row-wise and element-wise bodies on bf16, with TESSERA_BENCH=1 in the environment:
// bytes that must move (each input read once, each output written once) over the median time.
#include <algorithm>
#include <cstdlib>

#include "base/cuda_workspace.h"
#include "kernels/testing/cuda_rows.h"
#include "tensor/cuda/check.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // NOLINT: test vocabulary
using tessera::cuda::check;

using Sizes = std::vector<std::pair<int64_t, int64_t>>;

// A tensor on the GPU too large to fill number by number: random ones again and again.
class Large {
 public:
  Large(DType type, std::initializer_list<int64_t> dims) : tensor_(nullptr, type, dims) {
    constexpr int64_t kPattern = 1 << 18;
    Rng rng(19);
    const Array pattern = Array(type, {kPattern}).randomise(rng);
    memory_.emplace(tessera::cuda::allocate_on_gpu(0, "bench", tensor_.bytes()));
    tensor_.data = memory_->data();
    for (int64_t at = 0; at < tensor_.bytes(); at += pattern.tensor().bytes()) {
      tessera::cuda::copy_to_gpu(tensor_.as<std::byte>() + at, pattern.tensor().data,
                                 std::min(pattern.tensor().bytes(), tensor_.bytes() - at));
    }
  }
  operator Tensor&() { return tensor_; }              // NOLINT: it stands for its tensor
  operator const Tensor&() const { return tensor_; }  // NOLINT
  [[nodiscard]] int64_t bytes() const { return tensor_.bytes(); }

 private:
  Tensor tensor_;
  std::optional<HostArena> memory_;
};

class CudaRowsBench : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("TESSERA_BENCH") == nullptr) GTEST_SKIP() << "TESSERA_BENCH is not set";
    SKIP_WITHOUT_GPU();
    gpu_.emplace(int64_t{64} << 20);
  }

  template <typename F>
  void time(const char* what, int64_t tokens, int64_t width, int64_t bytes, const F& f) {
    constexpr int kRuns = 15;
    const cudaStream_t stream = gpu_->gpu().stream();
    cudaEvent_t begin = nullptr, end = nullptr;
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
    std::vector<double> ms;
    for (int run = -3; run < kRuns; ++run) {
      check(cudaEventRecord(begin, stream), "event");
      f(*gpu_);
      check(cudaEventRecord(end, stream), "event");
      check(cudaEventSynchronize(end), what);
      float elapsed = 0;
      check(cudaEventElapsedTime(&elapsed, begin, end), "event");
      if (run >= 0) ms.push_back(elapsed);
    }
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    std::sort(ms.begin(), ms.end());
    const double median = ms[kRuns / 2];
    fmt::print("{:<18} {:>6} x {:<6} {:>8.1f} us {:>6.0f} GB/s\n", what, tokens, width,
               median * 1e3, static_cast<double>(bytes) / median / 1e6);
  }

  std::optional<GpuRig> gpu_;
};

TEST_F(CudaRowsBench, LayerNorm) {
  for (const auto& [tokens, width] :
       Sizes{{65536, 768}, {16384, 1600}, {16384, 2048}, {16384, 4096}}) {
    const DType type = DType::kBF16;
    Large a(type, {tokens, width}), b(type, {tokens, width}), x(type, {tokens, width});
    Large y(type, {tokens, width}), w(type, {width}), bias(type, {width});
    Large stats(DType::kF32, {tokens, 2}), dw(DType::kF32, {width}), db(DType::kF32, {width});
    const int64_t n = x.bytes(), s = stats.bytes();
    time("layer_norm", tokens, width, 2 * n + s,
         [&](Context& ctx) { kernels::layer_norm(ctx, a, w, bias, y, stats, 1e-5); });
    time("add_layer_norm", tokens, width, 4 * n + s,
         [&](Context& ctx) { kernels::add_layer_norm(ctx, a, b, w, bias, x, y, stats, 1e-5); });
    time("layer_norm_dx", tokens, width, 4 * n + s,
         [&](Context& ctx) { kernels::layer_norm_dx(ctx, a, x, w, stats, b, y); });
    time("layer_norm_dw", tokens, width, 2 * n + s,
         [&](Context& ctx) { kernels::layer_norm_dw(ctx, a, x, stats, dw, false); });
    time("bias_dw", tokens, width, n, [&](Context& ctx) { kernels::bias_dw(ctx, a, dw, false); });
    time("layer_norm_dw_bias", tokens, width, 2 * n + s,
         [&](Context& ctx) { kernels::layer_norm_dw_bias(ctx, a, x, stats, dw, db, false); });
    time("layer_norm_grad", tokens, width, 4 * n + s,
         [&](Context& ctx) { kernels::layer_norm_grad(ctx, a, x, w, stats, b, y, dw, db, false); });
  }
}

TEST_F(CudaRowsBench, RmsNorm) {
  for (const auto& [tokens, width] :
       Sizes{{65536, 768}, {16384, 1600}, {16384, 2048}, {16384, 4096}}) {
    const DType type = DType::kBF16;
    Large a(type, {tokens, width}), b(type, {tokens, width}), x(type, {tokens, width});
    Large y(type, {tokens, width}), w(type, {width});
    Large rstd(DType::kF32, {tokens}), dw(DType::kF32, {width});
    const int64_t n = x.bytes(), s = rstd.bytes();
    time("rms_norm", tokens, width, 2 * n + s,
         [&](Context& ctx) { kernels::rms_norm(ctx, a, w, y, rstd, 1e-5); });
    time("add_rms_norm", tokens, width, 4 * n + s,
         [&](Context& ctx) { kernels::add_rms_norm(ctx, a, b, w, x, y, rstd, 1e-5); });
    time("rms_norm_dx", tokens, width, 4 * n + s,
         [&](Context& ctx) { kernels::rms_norm_dx(ctx, a, x, w, rstd, b, y); });
    time("rms_norm_dw", tokens, width, 2 * n + s,
         [&](Context& ctx) { kernels::rms_norm_dw(ctx, a, x, rstd, dw, false); });
    time("rms_norm_grad", tokens, width, 4 * n + s,
         [&](Context& ctx) { kernels::rms_norm_grad(ctx, a, x, w, rstd, b, y, dw, false); });
  }
}

TEST_F(CudaRowsBench, BiasAndGelu) {
  for (const auto& [tokens, width] : Sizes{{65536, 3072}, {16384, 6400}}) {
    const DType type = DType::kBF16;
    Large x(type, {tokens, width}), dh(type, {tokens, width}), y(type, {tokens, width});
    Large b(type, {width}), db(DType::kF32, {width});
    const int64_t n = x.bytes();
    time("bias_dw", tokens, width, n, [&](Context& ctx) { kernels::bias_dw(ctx, x, db, false); });
    time("add_bias", tokens, width, 2 * n, [&](Context& ctx) { kernels::add_bias(ctx, x, b, y); });
    time("gelu", tokens, width, 2 * n, [&](Context& ctx) { kernels::gelu(ctx, x, y); });
    time("gelu_grad", tokens, width, 3 * n,
         [&](Context& ctx) { kernels::gelu_grad(ctx, dh, x, y); });
    time("add", tokens, width, 3 * n, [&](Context& ctx) { kernels::add(ctx, x, dh, y); });
  }
}

TEST_F(CudaRowsBench, Swiglu) {
  for (const auto& [tokens, width] : Sizes{{16384, 8192}, {16384, 14336}}) {
    const DType type = DType::kBF16;
    Large gate_up(type, {tokens, 2 * width}), d_gate_up(type, {tokens, 2 * width});
    Large h(type, {tokens, width});
    const int64_t n = h.bytes();
    time("swiglu", tokens, width, 3 * n, [&](Context& ctx) { kernels::swiglu(ctx, gate_up, h); });
    time("swiglu_grad", tokens, width, 5 * n,
         [&](Context& ctx) { kernels::swiglu_grad(ctx, h, gate_up, d_gate_up); });
  }
}

TEST_F(CudaRowsBench, Rope) {
  struct Case {
    int64_t tokens, seq_len, heads, dim, rest;
  };
  for (const Case& c : std::vector<Case>{
           {16384, 4096, 32, 64, 0}, {16384, 8192, 32, 128, 0}, {16384, 4096, 8, 64, 512}}) {
    const int64_t rotated = c.heads * c.dim, width = rotated + c.rest;
    Large x(DType::kBF16, {c.tokens, width}), y(DType::kBF16, {c.tokens, width});
    Large cos(DType::kF32, {c.seq_len, c.dim / 2}), sin(DType::kF32, {c.seq_len, c.dim / 2});
    const int64_t angles = 2 * cos.bytes();
    time("rope", c.tokens, width, 2 * x.bytes() + angles,
         [&](Context& ctx) { kernels::rope(ctx, x, cos, sin, y, c.heads, false); });
    time("rope, in place", c.tokens, width, 2 * x.bytes() / width * rotated + angles,
         [&](Context& ctx) { kernels::rope(ctx, x, cos, sin, x, c.heads, false); });
  }
}

}  // namespace
}  // namespace tessera::kernels::cuda
