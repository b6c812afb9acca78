#include "base/cuda_workspace.h"
#include "base/master_weight.h"
#include "kernels/cuda/test_support.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // NOLINT: test vocabulary

TEST(CudaSumSquares, MatchesTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(1);
  Rig cpu(1, workspace::sum_squares(1));
  GpuRig gpu(workspace::cuda::sum_squares());
  for (const int64_t count :
       {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{4097}, int64_t{100003}, int64_t{3000001}}) {
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} of {}", count, name_of(type)));
      const Array x = Array(type, {count}).randomise(rng);
      Array metrics = Array(DType::kF64, {3}).fill(5);
      OnGpu x_gpu(x), metrics_gpu(metrics), again(metrics);
      kernels::sum_squares(cpu, x, metrics, 1);
      kernels::sum_squares(gpu, x_gpu, metrics_gpu, 1);
      kernels::sum_squares(gpu, x_gpu, again, 1);
      expect_same(metrics_gpu, metrics, 1e-12);
      EXPECT_TRUE(metrics_gpu.get().same_bits(again.get()));
      if (count == 0) continue;
      kernels::sum_squares(cpu, without_first(x), metrics, 0);
      kernels::sum_squares(gpu, without_first(x_gpu), metrics_gpu, 0);
      expect_same(metrics_gpu, metrics, 1e-12);
    }
  }
}

TEST(CudaMetrics, CountUnmaskedLabels) {
  SKIP_WITHOUT_GPU();
  Rng rng(2);
  Rig cpu;
  GpuRig gpu;
  for (const int64_t count : {int64_t{0}, int64_t{6}, int64_t{4095}, int64_t{60000}}) {
    Array labels(DType::kI32, {count}), loss = Array(DType::kF64, {1}).fill(2.5);
    for (int64_t i = 0; i < count; ++i) labels.set(i, rng() % 3 == 0 ? -100.0 : 7.0);
    Array metrics = Array(DType::kF64, {kMetricsHead + 1}).fill(1), counts(DType::kF64, {3});
    OnGpu labels_gpu(labels), loss_gpu(loss), metrics_gpu(metrics), counts_gpu(counts);
    kernels::add_metrics(cpu, loss, labels, metrics, 3);
    kernels::add_metrics(gpu, loss_gpu, labels_gpu, metrics_gpu, 3);
    EXPECT_EQ(metrics_gpu.get().values(), metrics.values());
    kernels::count_tokens(cpu, labels, counts);
    kernels::count_tokens(gpu, labels_gpu, counts_gpu);
    EXPECT_EQ(counts_gpu.get().values(), counts.values());
  }
}

// Master, moments, gradient and weight of one bucket.
struct Bucket {
  Array master, m, v, grad, weight;
  Bucket(DType type, int64_t count, Rng& rng)
      : master(Array(accumulate_type(type), {count}).randomise(rng)),
        m(Array(accumulate_type(type), {count}).randomise(rng, 0.1)),
        v(Array(accumulate_type(type), {count}).randomise(rng, 0.1)),
        grad(Array(accumulate_type(type), {count}).randomise(rng)),
        weight(type, {count}) {
    for (int64_t i = 0; i < count; ++i) v.set(i, std::abs(v.get(i)) + 1e-3);
  }
};

// Metrics of a step with `buckets` buckets.
Array known_metrics(int64_t buckets, Rng& rng) {
  Array known = Array(DType::kF64, {kMetricsHead + buckets}).randomise(rng);
  for (int64_t i = 0; i < known.size(); ++i) known.set(i, 10 + std::abs(known.get(i)));
  return known;
}

StepParams params() {
  return {.lr = 0.01, .step = 3, .weight_decay = 0.1, .clip = 0.3, .loss_scale = 4};
}

TEST(CudaAdamW, MatchesTheCpuForEveryTypeAndSize) {
  SKIP_WITHOUT_GPU();
  Rng rng(3);
  Rig cpu;
  GpuRig gpu;
  cpu.params() = params();
  gpu.set_params(params());
  const UpdatePlace place{.decay = true, .update = 2, .updates = 3};
  for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{4096}, int64_t{700003}}) {
    for (const DType type : kFloatTypes) {
      for (const int64_t buckets : {1, 300, 6000}) {
        SCOPED_TRACE(fmt::format("{} of {}, {} buckets", count, name_of(type), buckets));
        Bucket x(type, count, rng);
        const Array known = known_metrics(buckets, rng);
        OnGpu master(x.master), m(x.m), v(x.v), grad(x.grad), weight(x.weight), known_gpu(known);
        const DType acc = accumulate_type(type);
        Array& weight_cpu = type == acc ? x.master : x.weight;
        OnGpu& weight_gpu = type == acc ? master : weight;
        kernels::adamw(cpu, x.master, x.m, x.v, x.grad, weight_cpu, known, place);
        kernels::adamw(gpu, master, m, v, grad, weight_gpu, known_gpu, place);
        expect_same(master, x.master, tolerance(acc));
        expect_same(m, x.m, tolerance(acc));
        expect_same(v, x.v, tolerance(acc));
        EXPECT_TRUE(weight_gpu.get().same_bits(convert(master.get(), type)));
      }
    }
  }
}

TEST(CudaAdamW, UpdatesRestsOfBf16Weights) {
  SKIP_WITHOUT_GPU();
  Rng rng(6);
  Rig cpu;
  GpuRig gpu;
  cpu.params() = params();
  gpu.set_params(params());
  const Array tokens = Array(DType::kF64, {1}).fill(4);
  for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{4096}, int64_t{700003}}) {
    Bucket x(DType::kBF16, count, rng);
    Array rests(DType::kBF16, {count});
    for (int64_t i = 0; i < count; ++i) {
      const auto master = static_cast<float>(x.master.get(i));
      x.weight.set(i, master);
      rests.tensor().as<int16_t>()[i] =
          rest_of_master(master, x.weight.tensor().as<BFloat16>()[i].bits);
    }
    OnGpu rests_gpu(rests), m(x.m), v(x.v), grad(x.grad), weight(x.weight), tokens_gpu(tokens);
    OnGpu rests_again(rests), m_again(x.m), v_again(x.v), weight_again(x.weight);
    kernels::adamw(cpu, rests, x.m, x.v, x.grad, x.weight, tokens, {.decay = true});
    kernels::adamw(gpu, rests_gpu, m, v, grad, weight, tokens_gpu, {.decay = true});
    kernels::adamw(gpu, rests_again, m_again, v_again, grad, weight_again, tokens_gpu,
                   {.decay = true});
    EXPECT_TRUE(rests_gpu.get().same_bits(rests_again.get()));
    EXPECT_TRUE(weight.get().same_bits(weight_again.get()));
    expect_same(m, x.m, tolerance(DType::kF32));
    const Array weight_got = weight.get(), rests_got = rests_gpu.get();
    const auto joined = [](const Array& w, const Array& rest, int64_t i) {
      return master_weight(w.tensor().as<BFloat16>()[i].bits, rest.tensor().as<int16_t>()[i]);
    };
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_NEAR(joined(weight_got, rests_got, i), joined(x.weight, rests, i), 1e-5) << i;
    }
  }
}

TEST(CudaAdamW, TakesAddressesThatAreNotAligned) {
  SKIP_WITHOUT_GPU();
  Rng rng(4);
  Rig cpu;
  GpuRig gpu;
  cpu.params() = params();
  gpu.set_params(params());
  const Array tokens = Array(DType::kF64, {1}).fill(4);
  for (const DType type : kFloatTypes) {
    Bucket x(type, 131, rng);
    OnGpu master(x.master), m(x.m), v(x.v), grad(x.grad), weight(x.weight), tokens_gpu(tokens);
    const auto update = [](Context& ctx, const Tensor& w, const Tensor& m1, const Tensor& v1,
                           const Tensor& g, const Tensor& out, const Tensor& known) {
      Tensor w_rest = without_first(w), m_rest = without_first(m1), v_rest = without_first(v1);
      Tensor out_rest = without_first(out);
      kernels::adamw(ctx, w_rest, m_rest, v_rest, without_first(g), out_rest, known, {});
    };
    update(cpu, x.master, x.m, x.v, x.grad, x.weight, tokens);
    update(gpu, master, m, v, grad, weight, tokens_gpu);
    x.weight.set(0, 0);
    expect_same(master, x.master, tolerance(accumulate_type(type)));
    Array got = weight.get();
    EXPECT_TRUE(std::isnan(got.get(0)));
    got.set(0, 0);
    expect_close(got, x.weight.values(), tolerance(type));
  }
}

TEST(CudaAdamW, SkipsAStepThatIsNotFinite) {
  SKIP_WITHOUT_GPU();
  Rng rng(5);
  GpuRig gpu;
  gpu.set_params(params());
  for (const int64_t broken : {int64_t{kMetricLoss}, int64_t{kMetricsHead + 1}}) {
    Bucket x(DType::kBF16, 130, rng);
    Array known = known_metrics(2, rng);
    known.set(broken, std::numeric_limits<double>::infinity());
    OnGpu master(x.master), m(x.m), v(x.v), grad(x.grad), weight(x.weight), known_gpu(known);
    kernels::adamw(gpu, master, m, v, grad, weight, known_gpu, {});
    EXPECT_TRUE(master.get().same_bits(x.master));
    EXPECT_TRUE(m.get().same_bits(x.m));
    EXPECT_TRUE(v.get().same_bits(x.v));
    EXPECT_TRUE(weight.get().same_bits(x.weight));
  }
}

}  // namespace
}  // namespace tessera::kernels::cuda
