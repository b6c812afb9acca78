#include <array>
#include <deque>
#include <span>

#include "base/cuda_workspace.h"
#include "base/master_weight.h"
#include "kernels/testing/cuda_support.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

constexpr int64_t kChunk = workspace::cuda::kSquaresChunk;

TEST(CudaSumSquares, MatchesTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(1);
  Rig cpu(1, workspace::sum_squares(1));
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{7}, kChunk, kChunk + 1,
                              3 * kChunk - 1, int64_t{100003}, int64_t{3000001}}) {
    GpuRig gpu(workspace::cuda::sum_squares(count, 1));
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} of {}", count, name_of(type)));
      const Array x = Array(type, {count}).randomise(rng);
      Array metrics = Array(DType::kF64, {3}).fill(5);
      OnGpu x_gpu(x), metrics_gpu(metrics), again(metrics);
      const auto sum = [](Context& ctx, const Tensor& tensor, Tensor& sums, int64_t metric) {
        kernels::sum_squares(ctx, std::array<SquaredTensor, 1>{{{tensor, metric}}}, sums);
      };
      sum(cpu, x, metrics, 1);
      sum(gpu, x_gpu, metrics_gpu, 1);
      sum(gpu, x_gpu, again, 1);
      expect_same(metrics_gpu, metrics, 1e-12);
      EXPECT_TRUE(metrics_gpu.get().same_bits(again.get()));
      if (count == 0) continue;
      sum(cpu, without_first(x), metrics, 0);
      sum(gpu, without_first(x_gpu), metrics_gpu, 0);
      expect_same(metrics_gpu, metrics, 1e-12);
    }
  }
}

// Each has the bits that it has alone.
TEST(CudaSumSquares, GivesEveryTensorItsOwnNumber) {
  SKIP_WITHOUT_GPU();
  Rng rng(6);
  const std::vector<int64_t> sizes = {1, 2 * kChunk, 0, 130, 5 * kChunk + 7, 65, kChunk - 1};
  Rig cpu(1, workspace::sum_squares(1));
  for (const size_t count : {size_t{1}, size_t{2}, size_t{7}, kMostGroupedBuckets}) {
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} of {}", count, name_of(type)));
      std::deque<Array> arrays;
      std::deque<OnGpu> on_gpu;
      std::vector<SquaredTensor> here, there;
      int64_t elements = 0;
      for (size_t i = 0; i < count; ++i) {
        const int64_t size = sizes[i % sizes.size()];
        elements += size;
        const auto metric = static_cast<int64_t>(2 * i + 1);
        const Array& x = arrays.emplace_back(Array(type, {size}).randomise(rng));
        const OnGpu& x_gpu = on_gpu.emplace_back(x);
        const bool moved = size > 0 && i % 3 == 1;
        here.push_back({moved ? without_first(x) : x.tensor(), metric});
        there.push_back({moved ? without_first(x_gpu) : Tensor(x_gpu), metric});
      }
      GpuRig gpu(workspace::cuda::sum_squares(elements, static_cast<int64_t>(count)));
      Array metrics = Array(DType::kF64, {static_cast<int64_t>(2 * count + 1)}).fill(3);
      OnGpu together(metrics), alone(metrics);
      kernels::sum_squares(cpu, here, metrics);
      kernels::sum_squares(gpu, there, together);
      for (const SquaredTensor& x : there) kernels::sum_squares(gpu, std::span(&x, 1), alone);
      expect_same(together, metrics, 1e-12);
      EXPECT_TRUE(together.get().same_bits(alone.get()));
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
  Bucket(DType type, DType gradients, int64_t count, Rng& rng)
      : master(Array(accumulate_type(type), {count}).randomise(rng)),
        m(Array(accumulate_type(type), {count}).randomise(rng, 0.1)),
        v(Array(accumulate_type(type), {count}).randomise(rng, 0.1)),
        grad(Array(gradients, {count}).randomise(rng)),
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

// One bucket.
void update(Context& ctx, const UpdatedTensors& bucket, const Tensor& known,
            const UpdatePlace& place) {
  kernels::adamw(ctx, std::span(&bucket, 1), known, place);
}

UpdatedTensors all_without_first(const UpdatedTensors& x) {
  return {without_first(x.master), without_first(x.m),      without_first(x.v),
          without_first(x.grad),   without_first(x.weight), x.decay};
}

// f64, f32, bf16 and f16 weights, and the gradients they may have.
template <typename F>
void for_each_type(const F& f) {
  for (const DType type : kFloatTypes) {
    for (const DType gradients : gradient_types(type)) {
      SCOPED_TRACE(fmt::format("{} with gradients in {}", name_of(type), name_of(gradients)));
      f(type, gradients);
    }
  }
}

TEST(CudaAdamW, MatchesTheCpuForEveryTypeAndSize) {
  SKIP_WITHOUT_GPU();
  Rng rng(3);
  Rig cpu;
  GpuRig gpu(workspace::cuda::kAdamFactorsBytes);
  cpu.params() = params();
  gpu.set_params(params());
  const UpdatePlace place{.update = 2, .updates = 3};
  for_each_type([&](DType type, DType gradients) {
    for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{4096}, int64_t{700003}}) {
      for (const int64_t buckets : {1, 300, 6000}) {
        SCOPED_TRACE(fmt::format("{} elements, {} buckets", count, buckets));
        Bucket x(type, gradients, count, rng);
        const Array known = known_metrics(buckets, rng);
        OnGpu master(x.master), m(x.m), v(x.v), grad(x.grad), weight(x.weight), known_gpu(known);
        const DType acc = accumulate_type(type);
        Array& weight_cpu = type == acc ? x.master : x.weight;
        OnGpu& weight_gpu = type == acc ? master : weight;
        update(cpu, {x.master, x.m, x.v, x.grad, weight_cpu, true}, known, place);
        update(gpu, {master, m, v, grad, weight_gpu, true}, known_gpu, place);
        expect_same(master, x.master, tolerance(acc));
        expect_same(m, x.m, tolerance(acc));
        expect_same(v, x.v, tolerance(acc));
        EXPECT_TRUE(weight_gpu.get().same_bits(convert(master.get(), type)));
      }
    }
  });
}

TEST(CudaSgd, MatchesTheCpuWithAndWithoutMomentum) {
  SKIP_WITHOUT_GPU();
  Rng rng(13);
  Rig cpu;
  GpuRig gpu(workspace::cuda::kAdamFactorsBytes);
  for (const bool nesterov : {false, true}) {
    for (const double momentum : {0.0, 0.9}) {
      StepParams with = params();
      with.momentum = momentum;
      with.nesterov = nesterov;
      cpu.params() = with;
      gpu.set_params(with);
      for_each_type([&](DType type, DType gradients) {
        for (const int64_t count : {int64_t{7}, int64_t{4096}, int64_t{70003}}) {
          SCOPED_TRACE(fmt::format("{} elements, momentum {}", count, momentum));
          Bucket x(type, gradients, count, rng);
          const Array known = known_metrics(5, rng);
          OnGpu master(x.master), m(x.m), grad(x.grad), weight(x.weight), known_gpu(known);
          const DType acc = accumulate_type(type);
          Array& weight_cpu = type == acc ? x.master : x.weight;
          OnGpu& weight_gpu = type == acc ? master : weight;
          const bool keeps = momentum > 0;
          const Tensor m_cpu = keeps ? x.m.tensor() : Tensor{};
          const Tensor m_gpu = keeps ? static_cast<Tensor>(m) : Tensor{};
          const std::array on_cpu = {UpdatedTensors{x.master, m_cpu, {}, x.grad, weight_cpu, true}};
          const std::array on_gpu = {UpdatedTensors{master, m_gpu, {}, grad, weight_gpu, true}};
          sgd(cpu, on_cpu, known, {});
          sgd(gpu, on_gpu, known_gpu, {});
          expect_same(master, x.master, tolerance(acc));
          expect_same(m, x.m, tolerance(acc));
          EXPECT_TRUE(weight_gpu.get().same_bits(convert(master.get(), type)));
        }
      });
    }
  }
}

TEST(CudaAdamW, UpdatesRestsOfBf16Weights) {
  SKIP_WITHOUT_GPU();
  Rng rng(6);
  Rig cpu;
  GpuRig gpu(workspace::cuda::kAdamFactorsBytes);
  cpu.params() = params();
  gpu.set_params(params());
  const Array tokens = Array(DType::kF64, {1}).fill(4);
  const auto compare = [&](DType gradients, int64_t count) {
    Bucket x(DType::kBF16, gradients, count, rng);
    Array rests(DType::kBF16, {count});
    for (int64_t i = 0; i < count; ++i) {
      const auto master = static_cast<float>(x.master.get(i));
      x.weight.set(i, master);
      rests.tensor().as<int16_t>()[i] =
          rest_of_master(master, x.weight.tensor().as<BFloat16>()[i].bits);
    }
    OnGpu rests_gpu(rests), m(x.m), v(x.v), grad(x.grad), weight(x.weight), tokens_gpu(tokens);
    OnGpu rests_again(rests), m_again(x.m), v_again(x.v), weight_again(x.weight);
    update(cpu, {rests, x.m, x.v, x.grad, x.weight, true}, tokens, {});
    update(gpu, {rests_gpu, m, v, grad, weight, true}, tokens_gpu, {});
    update(gpu, {rests_again, m_again, v_again, grad, weight_again, true}, tokens_gpu, {});
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
  };
  for (const DType gradients : gradient_types(DType::kBF16)) {
    SCOPED_TRACE(name_of(gradients));
    for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{4096}, int64_t{700003}}) {
      compare(gradients, count);
    }
  }
}

TEST(CudaAdamW, TakesAddressesThatAreNotAligned) {
  SKIP_WITHOUT_GPU();
  Rng rng(4);
  Rig cpu;
  GpuRig gpu(workspace::cuda::kAdamFactorsBytes);
  cpu.params() = params();
  gpu.set_params(params());
  const Array tokens = Array(DType::kF64, {1}).fill(4);
  for_each_type([&](DType type, DType gradients) {
    Bucket x(type, gradients, 131, rng);
    OnGpu master(x.master), m(x.m), v(x.v), grad(x.grad), weight(x.weight), tokens_gpu(tokens);
    update(cpu, all_without_first({x.master, x.m, x.v, x.grad, x.weight}), tokens, {});
    update(gpu, all_without_first({master, m, v, grad, weight}), tokens_gpu, {});
    x.weight.set(0, 0);
    expect_same(master, x.master, tolerance(accumulate_type(type)));
    Array got = weight.get();
    EXPECT_TRUE(std::isnan(got.get(0)));
    got.set(0, 0);
    expect_close(got, x.weight.values(), tolerance(type));
  });
}

// A bucket on the GPU beside its reference.
struct BucketPair {
  Bucket cpu;
  OnGpu master, m, v, grad, weight;
  BucketPair(DType type, DType gradients, int64_t count, Rng& rng)
      : cpu(type, gradients, count, rng),
        master(cpu.master),
        m(cpu.m),
        v(cpu.v),
        grad(cpu.grad),
        weight(cpu.weight) {}
  UpdatedTensors here(bool decay) {
    return {cpu.master, cpu.m, cpu.v, cpu.grad, cpu.weight, decay};
  }
  UpdatedTensors there(bool decay) { return {master, m, v, grad, weight, decay}; }
};

TEST(CudaAdamW, UpdatesManyBucketsAtOnce) {
  SKIP_WITHOUT_GPU();
  Rng rng(7);
  Rig cpu;
  GpuRig gpu(workspace::cuda::kAdamFactorsBytes);
  cpu.params() = params();
  gpu.set_params(params());
  const std::vector<int64_t> sizes = {4096, 7, 0, 4097, 100003, 1, 130, 3 * 4096 - 4};
  const auto moved = [&](size_t i) { return i % 5 == 4 && sizes[i % sizes.size()] > 0; };
  for_each_type([&](DType type, DType gradients) {
    for (const size_t count : {size_t{2}, size_t{8}, kMostGroupedBuckets}) {
      SCOPED_TRACE(fmt::format("{} buckets", count));
      const Array known = known_metrics(static_cast<int64_t>(count), rng);
      OnGpu known_gpu(known);
      std::deque<BucketPair> buckets;
      std::vector<UpdatedTensors> here, there;
      for (size_t i = 0; i < count; ++i) {
        BucketPair& bucket = buckets.emplace_back(type, gradients, sizes[i % sizes.size()], rng);
        const bool decay = i % 2 == 0;
        here.push_back(bucket.here(decay));
        there.push_back(bucket.there(decay));
        if (!moved(i)) continue;
        here.back() = all_without_first(here.back());
        there.back() = all_without_first(there.back());
      }
      kernels::adamw(cpu, here, known, {});
      kernels::adamw(gpu, there, known_gpu, {});
      const double close = tolerance(accumulate_type(type));
      for (size_t i = 0; i < count; ++i) {
        SCOPED_TRACE(fmt::format("bucket {}", i));
        BucketPair& bucket = buckets[i];
        expect_same(bucket.master, bucket.cpu.master, close);
        expect_same(bucket.m, bucket.cpu.m, close);
        expect_same(bucket.v, bucket.cpu.v, close);
        Array written = bucket.weight.get(), rounded = convert(bucket.master.get(), type);
        if (moved(i)) {  // its first element was left out
          EXPECT_TRUE(std::isnan(written.get(0)));
          written.set(0, rounded.get(0));
        }
        EXPECT_TRUE(written.same_bits(rounded));
      }
    }
  });
}

TEST(CudaAdamW, SkipsAStepThatIsNotFinite) {
  SKIP_WITHOUT_GPU();
  Rng rng(5);
  GpuRig gpu(workspace::cuda::kAdamFactorsBytes);
  gpu.set_params(params());
  for (const int64_t broken : {int64_t{kMetricLoss}, int64_t{kMetricsHead + 1}}) {
    Bucket x(DType::kBF16, DType::kF32, 130, rng);
    Array known = known_metrics(2, rng);
    known.set(broken, std::numeric_limits<double>::infinity());
    OnGpu master(x.master), m(x.m), v(x.v), grad(x.grad), weight(x.weight), known_gpu(known);
    update(gpu, {master, m, v, grad, weight}, known_gpu, {});
    EXPECT_TRUE(master.get().same_bits(x.master));
    EXPECT_TRUE(m.get().same_bits(x.m));
    EXPECT_TRUE(v.get().same_bits(x.v));
    EXPECT_TRUE(weight.get().same_bits(x.weight));
  }
}

}  // namespace
}  // namespace tessera::kernels::cuda
