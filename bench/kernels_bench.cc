// Times every kernel on the shapes of a small and a medium model: op, shape, ms, GFLOP/s or GB/s.
// usage: kernels_bench [threads] [f32|bf16|f64] [A|B]
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/workspace.h"
#include "kernels/kernels.h"
#include "tensor/arena.h"

namespace tessera {
namespace {

struct Model {
  const char* name;
  int64_t tokens, width, ffn, heads, kv_heads, head_dim, seq_len, vocab, layers, params;
};
constexpr Model kModels[] = {
    {"A", 2048, 256, 768, 4, 2, 64, 256, 8192, 4, 5250000},
    {"B", 2048, 512, 1408, 8, 4, 64, 512, 16384, 8, 32000000},
};

class Bench {
 public:
  Bench(const Model& model, int threads, DType type)
      : model_(model),
        type_(type),
        arena_("bench", kArenaBytes),
        workers_(threads),
        scratch_("workspace", int64_t{64} << 20),
        ctx_{workers_, {scratch_.data(), static_cast<size_t>(scratch_.size_bytes())}, &params_} {}

  void run();

 private:
  static constexpr int64_t kArenaBytes = int64_t{3} << 30;

  Tensor make(std::initializer_list<int64_t> dims, DType type) {
    Tensor tensor(arena_.data() + used_, type, dims);
    used_ += (tensor.bytes() + 4095) / 4096 * 4096 + 4096;
    require(used_ <= arena_.size_bytes(), "the bench arena of {} bytes is full", kArenaBytes);
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      seed_ = seed_ * 6364136223846793005ULL + 1442695040888963407ULL;
      const float value = static_cast<float>(static_cast<int64_t>(seed_ >> 40) - (1 << 23)) * 1e-7F;
      if (type == DType::kF64) tensor.as<double>()[i] = static_cast<double>(value);
      if (type == DType::kF32) tensor.as<float>()[i] = value;
      if (type == DType::kBF16) tensor.as<BFloat16>()[i] = BFloat16(value);
      if (type == DType::kI32) {
        tensor.as<int32_t>()[i] =
            static_cast<int32_t>((seed_ >> 33) % static_cast<uint64_t>(model_.vocab));
      }
    }
    return tensor;
  }
  Tensor make(std::initializer_list<int64_t> dims) { return make(dims, type_); }
  Tensor make_acc(std::initializer_list<int64_t> dims) {
    return make(dims, accumulate_type(type_));
  }

  // Median of the runs. `times` is how often one training step calls it.
  void time(const char* op, int64_t times, double flops, double bytes,
            const std::function<void()>& call) {
    using Clock = std::chrono::steady_clock;
    call();
    std::vector<double> ms;
    const auto start = Clock::now();
    while (ms.size() < 5 ||
           (ms.size() < 200 && Clock::now() - start < std::chrono::milliseconds(250))) {
      const auto begin = Clock::now();
      call();
      ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    }
    std::sort(ms.begin(), ms.end());
    const double median = ms[ms.size() / 2];
    step_ms_ += median * static_cast<double>(times);
    std::printf("%-26s %9.3f ms  best %9.3f  ", op, median, ms[0]);
    if (flops > 0) {
      std::printf("%7.1f GFLOP/s", flops / median * 1e-6);
    } else {
      std::printf("%7.1f GB/s   ", bytes / median * 1e-6);
    }
    std::printf("  x%-3lld %9.1f ms/step\n", static_cast<long long>(times),
                median * static_cast<double>(times));
  }

  void linear_layer(const char* name, int64_t times, int64_t out, int64_t in) {
    const int64_t kept = used_, tokens = model_.tokens;
    Tensor x = make({tokens, in}), w = make({out, in}), y = make({tokens, out});
    Tensor dx = make({tokens, in}), dw = make_acc({out, in});
    const double flops = 2.0 * static_cast<double>(tokens) * static_cast<double>(out * in);
    const std::string label = name;
    time((label + " y").c_str(), times, flops, 0, [&] { kernels::linear(ctx_, x, w, y); });
    time((label + " dx").c_str(), times, flops, 0,
         [&] { kernels::linear_dx(ctx_, y, w, dx, false); });
    time((label + " dw").c_str(), times, flops, 0,
         [&] { kernels::linear_dw(ctx_, y, x, dw, true); });
    used_ = kept;
  }
  void linears();
  void attention();
  void rows();
  void vocabulary();
  void optimizer();
  void regions();

  Model model_;
  DType type_;
  HostArena arena_;
  Workers workers_;
  HostArena scratch_;
  StepParams params_{.lr = 1e-3};
  kernels::Context ctx_;
  int64_t used_ = 0;
  uint64_t seed_ = 1;
  double step_ms_ = 0;
};

void Bench::linears() {
  const int64_t q = model_.heads * model_.head_dim, kv = 2 * model_.kv_heads * model_.head_dim;
  linear_layer("linear q", model_.layers, q, model_.width);
  linear_layer("linear kv", model_.layers, kv, model_.width);
  linear_layer("linear out", model_.layers, model_.width, q);
  linear_layer("linear gate_up", model_.layers, 2 * model_.ffn, model_.width);
  linear_layer("linear down", model_.layers, model_.width, model_.ffn);
  linear_layer("linear head", 1, model_.vocab, model_.width);
}

void Bench::attention() {
  const int64_t tokens = model_.tokens, kept = used_;
  const kernels::AttentionShape shape{.seq_len = model_.seq_len,
                                      .heads = model_.heads,
                                      .kv_heads = model_.kv_heads,
                                      .head_dim = model_.head_dim,
                                      .heads_per_kv = model_.heads / model_.kv_heads};
  const int64_t width = shape.heads * shape.head_dim,
                kv_width = 2 * shape.kv_heads * shape.head_dim;
  Tensor q = make({tokens, width}), kv = make({tokens, kv_width}), o = make({tokens, width});
  Tensor lse = make_acc({tokens, shape.heads}), d_o = make({tokens, width});
  Tensor dq = make({tokens, width}), dkv = make({tokens, kv_width});
  // Only the causal half counts: 2 products forward, 5 backward.
  const double product = static_cast<double>(tokens * width) * static_cast<double>(shape.seq_len);
  time("attention", model_.layers, 2 * product, 0,
       [&] { kernels::attention(ctx_, q, kv, o, lse, shape); });
  time("attention_grad", model_.layers, 5 * product, 0,
       [&] { kernels::attention_grad(ctx_, q, kv, o, lse, d_o, dq, dkv, shape); });
  Tensor cos = make_acc({model_.seq_len, model_.head_dim / 2}), sin = cos;
  time("rope q", 2 * model_.layers, 0, 2.0 * static_cast<double>(q.bytes()),
       [&] { kernels::rope(ctx_, q, cos, sin, q, shape.heads, false); });
  time("rope kv", 2 * model_.layers, 0, 2.0 * static_cast<double>(kv.bytes()),
       [&] { kernels::rope(ctx_, kv, cos, sin, kv, shape.kv_heads, false); });
  used_ = kept;
}

void Bench::rows() {
  const int64_t tokens = model_.tokens, width = model_.width, kept = used_;
  Tensor x = make({tokens, width}), y = make({tokens, width}), z = make({tokens, width});
  Tensor w = make({width}), rstd = make_acc({tokens}), dw = make_acc({width});
  const auto bytes = static_cast<double>(x.bytes());
  time("add_rms_norm", 2 * model_.layers, 0, 4 * bytes,
       [&] { kernels::add_rms_norm(ctx_, x, y, w, z, y, rstd, 1e-5); });
  time("rms_norm", 1, 0, 2 * bytes, [&] { kernels::rms_norm(ctx_, x, w, y, rstd, 1e-5); });
  time("rms_norm_dx", 2 * model_.layers + 1, 0, 4 * bytes,
       [&] { kernels::rms_norm_dx(ctx_, y, x, w, rstd, z, z); });
  time("rms_norm_dw", 2 * model_.layers + 1, 0, 2 * bytes,
       [&] { kernels::rms_norm_dw(ctx_, y, x, rstd, dw, true); });
  time("add", model_.layers, 0, 3 * bytes, [&] { kernels::add(ctx_, x, y, x); });
  Tensor gate_up = make({tokens, 2 * model_.ffn}), h = make({tokens, model_.ffn});
  time("swiglu", model_.layers, 0, 3.0 * static_cast<double>(h.bytes()),
       [&] { kernels::swiglu(ctx_, gate_up, h); });
  Tensor d_gate_up = make({tokens, 2 * model_.ffn});
  time("swiglu_grad", model_.layers, 0, 5.0 * static_cast<double>(h.bytes()),
       [&] { kernels::swiglu_grad(ctx_, h, gate_up, d_gate_up); });
  used_ = kept;
}

void Bench::vocabulary() {
  const int64_t tokens = model_.tokens, kept = used_;
  Tensor ids = make({tokens}, DType::kI32), table = make({model_.vocab, model_.width});
  Tensor y = make({tokens, model_.width}), dtable = make_acc({model_.vocab, model_.width});
  time("embedding", 1, 0, 2.0 * static_cast<double>(y.bytes()),
       [&] { kernels::embedding(ctx_, ids, table, y, 0); });
  time("embedding_dw", 1, 0, static_cast<double>(dtable.bytes() + 3 * y.bytes()),
       [&] { kernels::embedding_dw(ctx_, ids, y, dtable, 0, false); });
  Tensor logits = make({tokens, model_.vocab}), stats = make_acc({tokens, 3});
  Tensor loss = make({1}, DType::kF64);
  const auto bytes = static_cast<double>(logits.bytes());
  time("cross_entropy_stats", 1, 0, bytes,
       [&] { kernels::cross_entropy_stats(ctx_, logits, ids, stats, 0, model_.vocab); });
  time("cross_entropy_loss", 1, 0, static_cast<double>(stats.bytes()),
       [&] { kernels::cross_entropy_loss(ctx_, stats, ids, loss, false); });
  time("cross_entropy_grad", 1, 0, 2 * bytes,
       [&] { kernels::cross_entropy_grad(ctx_, logits, stats, ids, logits, 0, model_.vocab); });
  used_ = kept;
}

void Bench::optimizer() {
  const int64_t count = model_.params, kept = used_;
  Tensor master = make_acc({count}), m = make_acc({count}), v = make_acc({count});
  Tensor grad = make_acc({count}), weight = type_ == DType::kBF16 ? make({count}) : master;
  Tensor known = make({1}, DType::kF64);
  const std::array updated = {kernels::UpdatedTensors{master, m, v, grad, weight}};
  const std::array squared = {kernels::SquaredTensor{grad}};
  kernels::fill_zero(ctx_, v);
  const auto bytes = static_cast<double>(master.bytes());
  time("adamw", 1, 0, 7 * bytes + (type_ == DType::kBF16 ? static_cast<double>(weight.bytes()) : 0),
       [&] { kernels::adamw(ctx_, updated, known, {}); });
  time("sum_squares", 1, 0, bytes, [&] { kernels::sum_squares(ctx_, squared, known); });
  time("first_nonfinite", 0, 0, bytes, [&] { (void)kernels::first_nonfinite(grad); });
  time("fill_zero", 0, 0, bytes, [&] { kernels::fill_zero(ctx_, m); });
  time("accumulate_into", 0, 0, 3 * bytes, [&] { kernels::accumulate_into(ctx_, grad, m); });
  time("copy", 0, 0, 2 * bytes, [&] { kernels::copy(ctx_, grad, m); });
  used_ = kept;
}

// The cost of one parallel region with hot members.
void Bench::regions() {
  time("1000 empty regions", 0, 0, 0, [&] {
    for (int i = 0; i < 1000; ++i) workers_.run([](int) {});
  });
}

void Bench::run() {
  std::printf("model %s, %d threads, %s, %s\n", model_.name, workers_.size(),
              std::string(name_of(type_)).c_str(), kernels::blas_name());
  regions();
  linears();
  const double linear_ms = step_ms_;
  attention();
  rows();
  vocabulary();
  optimizer();
  std::printf("sum of one step: %.1f ms, of which linear %.1f ms\n\n", step_ms_, linear_ms);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const std::string type = argc > 2 ? argv[2] : "f32";
  const std::string only = argc > 3 ? argv[3] : "";
  const DType dtype = type == "f64" ? DType::kF64 : type == "bf16" ? DType::kBF16 : DType::kF32;
  for (const Model& model : kModels) {
    if (only.empty() || only == model.name) Bench(model, threads, dtype).run();
  }
  return 0;
}
