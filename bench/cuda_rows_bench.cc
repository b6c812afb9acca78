// Speed of the row-wise and element-wise bodies on a GPU, on bf16: bytes that must move (each input
// read once, each output written once) over the median time.
#include <fmt/format.h>

#include <functional>
#include <utility>

#include "cuda_bench.h"
#include "kernels/attention.h"
#include "kernels/cuda/libraries/stopwatch.h"
#include "kernels/elementwise.h"
#include "kernels/norms.h"

namespace tessera {
namespace {

using Sizes = std::vector<std::pair<int64_t, int64_t>>;

class RowsBench {
 public:
  void run();

 private:
  void time(const char* what, int64_t tokens, int64_t width, int64_t bytes,
            const std::function<void(kernels::Context&)>& call) {
    constexpr int kRuns = 15, kWarmUp = 3;
    std::vector<double> ms;
    for (int run = 0; run < kWarmUp + kRuns; ++run) {
      const double once = watch_.ms([&] { call(gpu_); });
      if (run >= kWarmUp) ms.push_back(once);
    }
    std::sort(ms.begin(), ms.end());
    const double median = ms[kRuns / 2];
    fmt::print("{:<18} {:>6} x {:<6} {:>8.1f} us {:>6.0f} GB/s\n", what, tokens, width,
               median * 1e3, static_cast<double>(bytes) / median / 1e6);
  }
  void layer_norm();
  void rms_norm();
  void bias_and_gelu();
  void swiglu();
  void rope();

  GpuContext gpu_{int64_t{64} << 20};
  kernels::cuda::Stopwatch watch_{gpu_.gpu().stream()};
};

void RowsBench::layer_norm() {
  for (const auto& [tokens, width] :
       Sizes{{65536, 768}, {16384, 1600}, {16384, 2048}, {16384, 4096}}) {
    const DType type = DType::kBF16;
    GpuTensor a(type, {tokens, width}), b(type, {tokens, width}), x(type, {tokens, width});
    GpuTensor y(type, {tokens, width}), w(type, {width}), bias(type, {width});
    GpuTensor stats(DType::kF32, {tokens, 2}), dw(DType::kF32, {width}), db(DType::kF32, {width});
    const int64_t n = x.bytes(), s = stats.bytes();
    time("layer_norm", tokens, width, 2 * n + s,
         [&](kernels::Context& ctx) { kernels::layer_norm(ctx, a, w, bias, y, stats, 1e-5); });
    time("add_layer_norm", tokens, width, 4 * n + s, [&](kernels::Context& ctx) {
      kernels::add_layer_norm(ctx, a, b, w, bias, x, y, stats, 1e-5);
    });
    time("layer_norm_dx", tokens, width, 4 * n + s,
         [&](kernels::Context& ctx) { kernels::layer_norm_dx(ctx, a, x, w, stats, b, y); });
    time("layer_norm_dw", tokens, width, 2 * n + s,
         [&](kernels::Context& ctx) { kernels::layer_norm_dw(ctx, a, x, stats, dw, false); });
    time("bias_dw", tokens, width, n,
         [&](kernels::Context& ctx) { kernels::bias_dw(ctx, a, dw, false); });
    time("layer_norm_dw_bias", tokens, width, 2 * n + s, [&](kernels::Context& ctx) {
      kernels::layer_norm_dw_bias(ctx, a, x, stats, dw, db, false);
    });
    time("layer_norm_grad", tokens, width, 4 * n + s, [&](kernels::Context& ctx) {
      kernels::layer_norm_grad(ctx, a, x, w, stats, b, y, dw, db, false);
    });
  }
}

void RowsBench::rms_norm() {
  for (const auto& [tokens, width] :
       Sizes{{65536, 768}, {16384, 1600}, {16384, 2048}, {16384, 4096}}) {
    const DType type = DType::kBF16;
    GpuTensor a(type, {tokens, width}), b(type, {tokens, width}), x(type, {tokens, width});
    GpuTensor y(type, {tokens, width}), w(type, {width});
    GpuTensor rstd(DType::kF32, {tokens}), dw(DType::kF32, {width});
    const int64_t n = x.bytes(), s = rstd.bytes();
    time("rms_norm", tokens, width, 2 * n + s,
         [&](kernels::Context& ctx) { kernels::rms_norm(ctx, a, w, y, rstd, 1e-5); });
    time("add_rms_norm", tokens, width, 4 * n + s,
         [&](kernels::Context& ctx) { kernels::add_rms_norm(ctx, a, b, w, x, y, rstd, 1e-5); });
    time("rms_norm_dx", tokens, width, 4 * n + s,
         [&](kernels::Context& ctx) { kernels::rms_norm_dx(ctx, a, x, w, rstd, b, y); });
    time("rms_norm_dw", tokens, width, 2 * n + s,
         [&](kernels::Context& ctx) { kernels::rms_norm_dw(ctx, a, x, rstd, dw, false); });
    time("rms_norm_grad", tokens, width, 4 * n + s, [&](kernels::Context& ctx) {
      kernels::rms_norm_grad(ctx, a, x, w, rstd, b, y, dw, false);
    });
  }
}

void RowsBench::bias_and_gelu() {
  for (const auto& [tokens, width] : Sizes{{65536, 3072}, {16384, 6400}}) {
    const DType type = DType::kBF16;
    GpuTensor x(type, {tokens, width}), dh(type, {tokens, width}), y(type, {tokens, width});
    GpuTensor b(type, {width}), db(DType::kF32, {width});
    const int64_t n = x.bytes();
    time("bias_dw", tokens, width, n,
         [&](kernels::Context& ctx) { kernels::bias_dw(ctx, x, db, false); });
    time("add_bias", tokens, width, 2 * n,
         [&](kernels::Context& ctx) { kernels::add_bias(ctx, x, b, y); });
    time("gelu", tokens, width, 2 * n, [&](kernels::Context& ctx) { kernels::gelu(ctx, x, y); });
    time("gelu_grad", tokens, width, 3 * n,
         [&](kernels::Context& ctx) { kernels::gelu_grad(ctx, dh, x, y); });
    time("add", tokens, width, 3 * n, [&](kernels::Context& ctx) { kernels::add(ctx, x, dh, y); });
  }
}

void RowsBench::swiglu() {
  for (const auto& [tokens, width] : Sizes{{16384, 8192}, {16384, 14336}}) {
    const DType type = DType::kBF16;
    GpuTensor gate_up(type, {tokens, 2 * width}), d_gate_up(type, {tokens, 2 * width});
    GpuTensor h(type, {tokens, width});
    const int64_t n = h.bytes();
    time("swiglu", tokens, width, 3 * n,
         [&](kernels::Context& ctx) { kernels::swiglu(ctx, gate_up, h); });
    time("swiglu_grad", tokens, width, 5 * n,
         [&](kernels::Context& ctx) { kernels::swiglu_grad(ctx, h, gate_up, d_gate_up); });
  }
}

void RowsBench::rope() {
  struct Case {
    int64_t tokens, seq_len, heads, dim, rest;
  };
  for (const Case& c : std::vector<Case>{
           {16384, 4096, 32, 64, 0}, {16384, 8192, 32, 128, 0}, {16384, 4096, 8, 64, 512}}) {
    const int64_t rotated = c.heads * c.dim, width = rotated + c.rest;
    GpuTensor x(DType::kBF16, {c.tokens, width}), y(DType::kBF16, {c.tokens, width});
    GpuTensor cos(DType::kF32, {c.seq_len, c.dim / 2}), sin(DType::kF32, {c.seq_len, c.dim / 2});
    const int64_t angles = 2 * cos.bytes();
    time("rope", c.tokens, width, 2 * x.bytes() + angles,
         [&](kernels::Context& ctx) { kernels::rope(ctx, x, cos, sin, y, c.heads, false); });
    time("rope, in place", c.tokens, width, 2 * x.bytes() / width * rotated + angles,
         [&](kernels::Context& ctx) { kernels::rope(ctx, x, cos, sin, x, c.heads, false); });
  }
}

void RowsBench::run() {
  layer_norm();
  rms_norm();
  bias_and_gelu();
  swiglu();
  rope();
}

}  // namespace
}  // namespace tessera

int main() {
  return tessera::run_on_gpu("cuda_rows_bench", [] { tessera::RowsBench().run(); });
}
