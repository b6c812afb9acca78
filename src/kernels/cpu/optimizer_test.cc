#include <array>

#include "base/master_weight.h"
#include "kernels/testing/test_support.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

constexpr int64_t kMany = 20011;  // several blocks and an odd rest

TEST(SumSquares, IsTheSameForEveryNumberOfThreads) {
  Rng rng(4);
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{4097}, kMany, int64_t{3000001}}) {
    for (const DType type : kFloatTypes) {
      const Array x = Array(type, {count}).randomise(rng);
      double want = 0;
      for (int64_t i = 0; i < count; ++i) want += x.get(i) * x.get(i);
      std::vector<double> sums;
      for (const int threads : {1, 2, 3}) {
        Rig rig(threads, workspace::sum_squares(threads));
        Array metrics = Array(DType::kF64, {3}).fill(0);
        sum_squares(rig, std::array<SquaredTensor, 1>{{{x, 1}}}, metrics);
        sums.push_back(metrics.get(1));
        EXPECT_EQ(metrics.get(0) + metrics.get(2), 0);
      }
      EXPECT_NEAR(sums[0], want, 1e-11 * want);
      EXPECT_EQ(sums[0], sums[1]);
      EXPECT_EQ(sums[0], sums[2]);
    }
  }
  Rig small(1, workspace::sum_squares(1) - 1);
  Array metrics(DType::kF64, {1});
  const Array x(DType::kF32, {3});
  EXPECT_THROW(sum_squares(small, std::array<SquaredTensor, 1>{{{x, 0}}}, metrics), InternalError);
}

TEST(SumSquares, GivesEveryTensorItsOwnNumber) {
  Rng rng(14);
  Rig rig(2, workspace::sum_squares(2));
  const Array a = Array(DType::kF32, {7}).randomise(rng), none(DType::kF32, {0});
  const Array b = Array(DType::kF32, {kMany}).randomise(rng);
  const std::vector<SquaredTensor> all = {{a, 0}, {none, 2}, {b, 3}};
  Array metrics = Array(DType::kF64, {4}).fill(2), alone = metrics;
  sum_squares(rig, all, metrics);
  for (const SquaredTensor& one : all) sum_squares(rig, std::span(&one, 1), alone);
  EXPECT_TRUE(metrics.same_bits(alone));
  EXPECT_EQ(metrics.get(1), 2);
  EXPECT_EQ(metrics.get(2), 2);
  EXPECT_GT(metrics.get(3), metrics.get(0));
  // Numbers that do not ascend, and tensors of several types.
  EXPECT_THROW(sum_squares(rig, std::vector<SquaredTensor>{{a, 1}, {b, 1}}, metrics),
               InternalError);
  const Array other(DType::kBF16, {7});
  EXPECT_THROW(sum_squares(rig, std::vector<SquaredTensor>{{a, 0}, {other, 1}}, metrics),
               InternalError);
}

TEST(AdamW, MatchesTheFormulaOverSeveralSteps) {
  Rng rng(5);
  constexpr double kScale = 0.25;
  for (const DType type : kFloatTypes) {
    const DType acc = accumulate_type(type);
    Array master = Array(acc, {kMany}).randomise(rng);
    Array m = Array(acc, {kMany}).fill(0), v = m, grad(acc, {kMany}), weight(type, {kMany});
    std::vector<double> w = master.values(), m1(kMany, 0), v1(kMany, 0);
    Rig rig(2);
    StepParams& options = rig.params();
    options.lr = 0.01;
    options.weight_decay = 0.1;
    const Array tokens = Array(DType::kF64, {1}).fill(1 / kScale);
    for (options.step = 1; options.step <= 3; ++options.step) {
      grad.randomise(rng);
      const Tensor& out = type == acc ? master : weight;
      adamw(rig, std::array<UpdatedTensors, 1>{{{master, m, v, grad, out, true}}}, tokens, {});
      for (size_t i = 0; i < w.size(); ++i) {
        const double g = grad.get(static_cast<int64_t>(i)) * kScale;
        m1[i] = options.beta1 * m1[i] + (1 - options.beta1) * g;
        v1[i] = options.beta2 * v1[i] + (1 - options.beta2) * g * g;
        const auto step = static_cast<double>(options.step);
        const double mhat = m1[i] / (1 - std::pow(options.beta1, step));
        const double vhat = v1[i] / (1 - std::pow(options.beta2, step));
        w[i] -= options.lr * options.weight_decay * w[i];
        w[i] -= options.lr * mhat / (std::sqrt(vhat) + options.eps);
      }
    }
    expect_close(master, w, tolerance(acc));
    expect_close(m, m1, tolerance(acc));
    expect_close(v, v1, tolerance(acc));
    if (type != acc) {
      EXPECT_TRUE(weight.same_bits(convert(master, type)));
    }
  }
}

// PyTorch's rule, with and without momentum, Nesterov's look ahead and decay.
TEST(Sgd, MatchesTheFormulaOverSeveralSteps) {
  Rng rng(15);
  constexpr double kScale = 0.25;
  struct Kind {
    double momentum;
    bool nesterov, decay;
  };
  for (const Kind& kind : {Kind{0, false, true}, Kind{0.9, false, true}, Kind{0.9, true, true},
                           Kind{0.9, true, false}}) {
    for (const DType type : kFloatTypes) {
      const DType acc = accumulate_type(type);
      Array master = Array(acc, {kMany}).randomise(rng);
      Array m = Array(acc, {kMany}).fill(0), grad(acc, {kMany}), weight(type, {kMany});
      std::vector<double> w = master.values(), m1(kMany, 0);
      Rig rig(2);
      StepParams& options = rig.params();
      options.lr = 0.01;
      options.weight_decay = 0.1;
      options.momentum = kind.momentum;
      options.nesterov = kind.nesterov;
      const Array tokens = Array(DType::kF64, {1}).fill(1 / kScale);
      for (options.step = 1; options.step <= 3; ++options.step) {
        grad.randomise(rng);
        const Tensor& out = type == acc ? master : weight;
        const Tensor kept = kind.momentum > 0 ? m.tensor() : Tensor{};
        sgd(rig, std::array<UpdatedTensors, 1>{{{master, kept, {}, grad, out, kind.decay}}}, tokens,
            {});
        for (size_t i = 0; i < w.size(); ++i) {
          const double decay = kind.decay ? options.weight_decay : 0;
          const double g = grad.get(static_cast<int64_t>(i)) * kScale + decay * w[i];
          m1[i] = kind.momentum * m1[i] + g;
          w[i] -= options.lr * (kind.nesterov ? g + kind.momentum * m1[i] : m1[i]);
        }
      }
      expect_close(master, w, tolerance(acc));
      if (kind.momentum > 0) expect_close(m, m1, tolerance(acc));
      if (type != acc) {
        EXPECT_TRUE(weight.same_bits(convert(master, type)));
      }
    }
  }
}

// What the guard of spikes says of a step (train/session/spike_guard.h).
TEST(Sgd, AStepBeyondItsLimitsChangesNothing) {
  const Array before = Array(DType::kF64, {3}).fill(1), grad = Array(DType::kF64, {3}).fill(1);
  // A loss of 2 per token, four tokens, a norm of sqrt(64) / 4 = 2 per token.
  Array metrics(DType::kF64, {kMetricsHead + 1});
  metrics.set(kMetricLoss, 8);
  metrics.set(kMetricTokens, 4);
  metrics.set(kMetricUpdateTokens, 4);
  metrics.set(kMetricsHead, 64);
  struct Limits {
    double norm, loss;
    bool passes;
  };
  for (const Limits& limits :
       {Limits{2, 2, true}, Limits{1.99, 2, false}, Limits{2, 1.99, false}}) {
    Rig rig(1);
    rig.params().lr = 0.5;
    rig.params().most_norm = limits.norm;
    rig.params().most_loss = limits.loss;
    Array weight = before;
    sgd(rig, std::array<UpdatedTensors, 1>{{{weight, {}, {}, grad, weight, false}}}, metrics, {});
    EXPECT_EQ(weight.get(0), limits.passes ? 1 - 0.5 / 4 : 1);
  }
}

// A bf16 weight and its rest are updated as its master copy is.
TEST(AdamW, RestsOfBf16WeightsAreTheMasterCopy) {
  Rng rng(6);
  Array master = Array(DType::kF32, {kMany}).randomise(rng);
  Array m = Array(DType::kF32, {kMany}).fill(0), v = m, grad = m;
  Array weight = convert(master, DType::kBF16), rests(DType::kBF16, {kMany});
  auto* rest = rests.tensor().as<int16_t>();
  const auto bits = [&](int64_t i) { return weight.tensor().as<BFloat16>()[i].bits; };
  for (int64_t i = 0; i < kMany; ++i)
    rest[i] = rest_of_master(master.tensor().as<float>()[i], bits(i));
  Array whole_weight = weight, whole_m = m, whole_v = v;
  Rig rig(2);
  rig.params().lr = 0.01;
  const Array tokens = Array(DType::kF64, {1}).fill(1);
  for (rig.params().step = 1; rig.params().step <= 3; ++rig.params().step) {
    grad.randomise(rng);
    const std::array whole = {UpdatedTensors{master, whole_m, whole_v, grad, whole_weight, true}};
    const std::array parts = {UpdatedTensors{rests, m, v, grad, weight, true}};
    adamw(rig, whole, tokens, {});
    adamw(rig, parts, tokens, {});
  }
  expect_close(m, whole_m.values(), 1e-6);
  expect_close(v, whole_v.values(), 1e-6);
  expect_close(weight, whole_weight.values(), tolerance(DType::kBF16));
  for (int64_t i = 0; i < kMany; ++i) {
    ASSERT_NEAR(master_weight(bits(i), rest[i]), master.tensor().as<float>()[i], 1e-6);
  }
}

TEST(AdamW, DecaysTheBucketsThatSaySo) {
  Rng rng(15);
  Rig rig(2);
  rig.params().lr = 0.1;
  rig.params().weight_decay = 0.5;
  const Array start = Array(DType::kF64, {9}).randomise(rng);
  Array decays = start, stays = start, m = Array(DType::kF64, {9}).fill(0);
  Array m_a = m, v_a = m, m_b = m, v_b = m;
  const Array grad = m, tokens = Array(DType::kF64, {1}).fill(1);
  adamw(rig,
        std::vector<UpdatedTensors>{{decays, m_a, v_a, grad, decays, true},
                                    {stays, m_b, v_b, grad, stays, false}},
        tokens, {});
  EXPECT_TRUE(stays.same_bits(start));
  for (int64_t i = 0; i < 9; ++i) EXPECT_DOUBLE_EQ(decays.get(i), 0.95 * start.get(i));
}

TEST(AdamW, ClipsByTheNormAndSkipsWhatIsNotFinite) {
  const auto updated = [](double loss, double squares, double clip) {
    Array master = Array(DType::kF64, {1}).fill(1), m = Array(DType::kF64, {1}).fill(0), v = m;
    const Array grad = Array(DType::kF64, {1}).fill(6);
    Array known = Array(DType::kF64, {kMetricsHead + 2}).fill(0);
    known.set(kMetricLoss, loss);
    known.set(kMetricTokens, 2);
    known.set(kMetricUpdateTokens, 2);
    known.set(kMetricsHead + 1, squares);
    Rig rig;
    rig.params().lr = 0.1;
    rig.params().clip = clip;
    adamw(rig, std::array<UpdatedTensors, 1>{{{master, m, v, grad, master}}}, known, {});
    return m.get(0);
  };
  EXPECT_NEAR(updated(1, 36, 0), 0.1 * 3, 1e-12);     // 6 over 2 tokens
  EXPECT_NEAR(updated(1, 36, 1.5), 0.1 * 1.5, 1e-6);  // the norm is 3
  EXPECT_NEAR(updated(1, 36, 9), 0.1 * 3, 1e-12);
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(updated(inf, 36, 0), 0);
  EXPECT_EQ(updated(1, std::numeric_limits<double>::quiet_NaN(), 1), 0);
}

TEST(Metrics, CountUnmaskedLabels) {
  Rig rig;
  Array labels(DType::kI32, {6}), loss = Array(DType::kF64, {1}).fill(2.5);
  for (const int64_t i : {0, 1, 2, 3, 4, 5}) labels.set(i, i % 3 == 0 ? -1 : 7);
  Array metrics = Array(DType::kF64, {kMetricsHead + 1}).fill(1);
  add_metrics(rig, loss, labels, metrics, 3);
  EXPECT_EQ(metrics.values(), (std::vector<double>{3.5, 5, 3, 1}));
  Array counts(DType::kF64, {3});
  count_tokens(rig, labels, counts);
  EXPECT_EQ(counts.values(), (std::vector<double>{1, 1, 2}));
}

}  // namespace
}  // namespace tessera::kernels
