#include "kernels/testing/cuda_support.h"

namespace tessera::kernels::cuda {
namespace {

using namespace testing;  // test vocabulary

// Rows of `columns` logits, of which `valid` count, in `parts` parts of one vocabulary.
struct Sizes {
  int64_t tokens, columns, valid, parts;
};
const std::vector<Sizes> kSizes = {{1, 1, 1, 1},      {13, 37, 37, 1},    {21, 40, 33, 2},
                                   {9, 30, 7, 3},     {5, 2048, 2048, 1}, {3, 8200, 8195, 2},
                                   {65, 130, 130, 2}, {7, 16, 0, 1},      {2, 50304, 50257, 1}};

struct Loss {
  std::vector<Array> logits;  // per part
  Array labels;
  Loss(const Sizes& s, DType type, Rng& rng) : labels(DType::kI32, {s.tokens}) {
    for (int64_t part = 0; part < s.parts; ++part) {
      Array x = Array(type, {s.tokens, s.columns}).randomise(rng, 3);
      for (int64_t t = 0; t < s.tokens; ++t) {  // padding must not count
        for (int64_t c = s.valid; c < s.columns; ++c) {
          x.set(t * s.columns + c, std::numeric_limits<double>::quiet_NaN());
        }
      }
      logits.push_back(x);
    }
    const auto vocab = static_cast<uint64_t>(std::max<int64_t>(1, s.valid * s.parts));
    for (int64_t t = 0; t < s.tokens; ++t) {
      labels.set(t, t % 5 == 3 ? -100.0 : static_cast<double>(rng() % vocab));
    }
  }
};

// The stats of all parts, by the CPU.
Array all_stats(Rig& cpu, const Loss& loss, const Sizes& s) {
  const DType type = accumulate_type(loss.logits[0].type());
  Array all(type, {s.parts, s.tokens, 3});
  for (int64_t part = 0; part < s.parts; ++part) {
    Array stats(type, {s.tokens, 3});
    kernels::cross_entropy_stats(cpu, loss.logits[static_cast<size_t>(part)], loss.labels, stats,
                                 part * s.valid, s.valid);
    for (int64_t i = 0; i < stats.size(); ++i) all.set(part * s.tokens * 3 + i, stats.get(i));
  }
  return all;
}

TEST(CudaCrossEntropy, StatsMatchTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(1);
  Rig cpu;
  GpuRig gpu;
  for_each_case(kSizes, [&](const Sizes& s, DType type) {
    SCOPED_TRACE(fmt::format("{} x {} of {}, {}", s.tokens, s.valid, s.columns, name_of(type)));
    const Loss loss(s, type, rng);
    for (int64_t part = 0; part < s.parts; ++part) {
      const Array& logits = loss.logits[static_cast<size_t>(part)];
      Array stats(accumulate_type(type), {s.tokens, 3});
      const OnGpu logits_gpu(logits), labels_gpu(loss.labels);
      OnGpu stats_gpu(stats), again(stats);
      kernels::cross_entropy_stats(cpu, logits, loss.labels, stats, part * s.valid, s.valid);
      kernels::cross_entropy_stats(gpu, logits_gpu, labels_gpu, stats_gpu, part * s.valid, s.valid);
      kernels::cross_entropy_stats(gpu, logits_gpu, labels_gpu, again, part * s.valid, s.valid);
      const Array got = stats_gpu.get();
      EXPECT_TRUE(again.get().same_bits(got));
      for (int64_t i = 0; i < got.size(); ++i) {
        if (i % 3 == 1) {  // the sum of exp; the others are logits
          EXPECT_NEAR(got.get(i), stats.get(i), 4 * tolerance(stats.type()) * stats.get(i));
        } else {
          EXPECT_EQ(got.get(i), stats.get(i));
        }
      }
    }
  });
}

TEST(CudaCrossEntropy, StatsSeeInfinitiesAndNaN) {
  SKIP_WITHOUT_GPU();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  GpuRig gpu;
  for (const DType type : kFloatTypes) {
    Array logits = Array(type, {3, 5}).fill(-kInf), labels = Array(DType::kI32, {3}).fill(0);
    logits.set(2, 1.5);
    logits.set(3, 1.5);
    logits.set(5, std::numeric_limits<double>::quiet_NaN());
    logits.set(6, 2);
    logits.set(13, kInf);
    OnGpu stats(Array(accumulate_type(type), {3, 3}));
    kernels::cross_entropy_stats(gpu, OnGpu(logits), OnGpu(labels), stats, 0, 5);
    const Array got = stats.get();
    EXPECT_EQ(got.get(0), 1.5);
    EXPECT_EQ(got.get(1), 2);
    EXPECT_TRUE(std::isnan(got.get(4)));
    EXPECT_FALSE(std::isfinite(got.get(6)) && std::isfinite(got.get(7)));
  }
}

TEST(CudaCrossEntropy, LossMatchesTheCpu) {
  SKIP_WITHOUT_GPU();
  Rng rng(2);
  Rig cpu;
  GpuRig gpu;
  for (const Sizes& s : {Sizes{1, 3, 3, 1}, Sizes{13, 37, 37, 1}, Sizes{2500, 5, 4, 3}}) {
    for (const DType type : {DType::kF64, DType::kF32}) {
      const Loss x(s, type, rng);
      const Array all = all_stats(cpu, x, s);
      const OnGpu all_gpu(all), labels_gpu(x.labels);
      Array loss(DType::kF64, {1});
      OnGpu loss_gpu(loss);
      for (const bool accumulate : {false, true}) {
        kernels::cross_entropy_loss(cpu, all, x.labels, loss, accumulate);
        kernels::cross_entropy_loss(gpu, all_gpu, labels_gpu, loss_gpu, accumulate);
        expect_same(loss_gpu, loss, 1e-12);
      }
    }
  }
}

TEST(CudaCrossEntropy, GradientMatchesTheCpuAndMayBeInPlace) {
  SKIP_WITHOUT_GPU();
  Rng rng(3);
  Rig cpu;
  GpuRig gpu;
  cpu.params().loss_scale = 8;
  gpu.set_params(cpu.params());
  for_each_case(kSizes, [&](const Sizes& s, DType type) {
    SCOPED_TRACE(fmt::format("{} x {} of {}, {}", s.tokens, s.valid, s.columns, name_of(type)));
    const Loss x(s, type, rng);
    const Array all = all_stats(cpu, x, s);
    const OnGpu all_gpu(all), labels_gpu(x.labels);
    for (int64_t part = 0; part < s.parts; ++part) {
      const Array& logits = x.logits[static_cast<size_t>(part)];
      Array grad(type, {s.tokens, s.columns});
      OnGpu in_place(logits), grad_gpu(grad);
      kernels::cross_entropy_grad(cpu, logits, all, x.labels, grad, part * s.valid, s.valid);
      kernels::cross_entropy_grad(gpu, OnGpu(logits), all_gpu, labels_gpu, grad_gpu, part * s.valid,
                                  s.valid);
      kernels::cross_entropy_grad(gpu, in_place, all_gpu, labels_gpu, in_place, part * s.valid,
                                  s.valid);
      expect_same(grad_gpu, grad, tolerance(type));
      EXPECT_TRUE(in_place.get().same_bits(grad_gpu.get()));
    }
  });
}

}  // namespace
}  // namespace tessera::kernels::cuda
