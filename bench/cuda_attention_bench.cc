// How fast attention is, by kernels of our own and by cuDNN, on the shapes of the models of
// bench/gpu.
#include <fmt/format.h>

#include <functional>

#include "base/cuda_workspace.h"
#include "cuda_bench.h"
#include "kernels/cuda/attention/attention_own.h"
#include "kernels/cuda/attention/cudnn_attention.h"
#include "kernels/cuda/libraries/stopwatch.h"
#include "kernels/linear.h"

namespace tessera {
namespace {

// Products that bring the card to the clock it has in a training step: attention in between is
// slower than alone.
class Heater {
 public:
  explicit Heater(kernels::Context& ctx) : ctx_(ctx) {}
  void operator()() {
    for (int i = 0; i < 12; ++i) kernels::linear(ctx_, x_, w_, y_);
  }

 private:
  static constexpr int64_t kSize = 8192;
  kernels::Context& ctx_;
  GpuTensor x_{DType::kBF16, {kSize, kSize}}, w_{DType::kBF16, {kSize, kSize}},
      y_{DType::kBF16, {kSize, kSize}};
};

struct Case {
  const char* name;
  int64_t sequences;
  kernels::AttentionShape shape;
};

std::vector<Case> cases() {
  return {
      {"GPT-2 124M", 64, {.seq_len = 1024, .heads = 12, .kv_heads = 12, .head_dim = 64}},
      {"GPT-2 1.5B", 16, {.seq_len = 1024, .heads = 25, .kv_heads = 25, .head_dim = 64}},
      {"Llama 1.2B",
       4,
       {.seq_len = 4096, .heads = 32, .kv_heads = 8, .head_dim = 64, .heads_per_kv = 4}},
      {"Llama 2.8B",
       2,
       {.seq_len = 8192, .heads = 32, .kv_heads = 8, .head_dim = 128, .heads_per_kv = 4}},
  };
}

void run(const Case& c) {
  const kernels::AttentionShape& s = c.shape;
  const int64_t tokens = c.sequences * s.seq_len, width = s.heads * s.head_dim;
  const int64_t kv_width = 2 * s.kv_heads * s.head_dim;
  constexpr DType kType = DType::kBF16;
  GpuTensor q(kType, {tokens, width}), kv(kType, {tokens, kv_width}), o(kType, {tokens, width}),
      d_o(kType, {tokens, width}), dq(kType, {tokens, width}), dkv(kType, {tokens, kv_width}),
      lse(DType::kF32, {tokens, s.heads});
  const int64_t scratch =
      std::max(workspace::cuda::attention_grad(kType, tokens, s.heads, s.kv_heads, s.head_dim),
               workspace::cuda::kMatmulBytes);
  // The causal half of 2 products forward, 5 backward.
  const double product = 1e-9 * static_cast<double>(tokens * width * s.seq_len);
  const auto show = [&](kernels::Context& ctx, const char* how, double products,
                        const std::function<void()>& call) {
    const double ms = kernels::cuda::Stopwatch(ctx.gpu->stream()).shortest_ms(call);
    Heater heater(ctx);
    const double warm_ms =
        kernels::cuda::Stopwatch(ctx.gpu->stream()).shortest_ms(call, std::ref(heater));
    fmt::print("{:<11} {:<26} {:8.3f} ms {:6.0f} TFLOP/s, behind products {:8.3f} ms {:6.0f}\n",
               c.name, how, ms, products * product / ms, warm_ms, products * product / warm_ms);
  };
  {
    GpuContext rig(scratch);
    show(rig, "own forward", 2,
         [&] { kernels::cuda::own_attention(rig, q, kv, {}, {}, o, lse, s); });
    show(rig, "own backward", 5,
         [&] { kernels::cuda::own_attention_grad(rig, q, kv, o, lse, d_o, {}, dq, dkv, s); });
  }
  for (const bool tuned : {false, true}) {
    GpuContext rig(scratch, {.deterministic = false});
    kernels::cuda::Attention* const cudnn = rig.gpu().attention();
    if (cudnn == nullptr) return;
    cudnn->tune_at_first_use(tuned);
    show(rig, tuned ? "tuned forward" : "cuDNN's first forward", 2,
         [&] { kernels::attention(rig, q, kv, o, lse, s); });
    show(rig, tuned ? "tuned backward" : "cuDNN's first backward", 5,
         [&] { kernels::attention_grad(rig, q, kv, o, lse, d_o, dq, dkv, s); });
    fmt::print("{:<11} cuDNN serves forward: {}, backward: {}\n", c.name,
               cudnn->forward(rig, q, kv, o, lse, s),
               cudnn->backward(rig, q, kv, o, lse, d_o, dq, dkv, s));
  }
}

}  // namespace
}  // namespace tessera

int main() {
  return tessera::run_on_gpu("cuda_attention_bench", [] {
    for (const tessera::Case& c : tessera::cases()) tessera::run(c);
  });
}
