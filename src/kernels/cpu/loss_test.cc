// Cross entropy over a split vocabulary, and embeddings.
#include "base/rounding.h"
#include "kernels/testing/test_support.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

// A vocabulary of `vocab` rows cut into parts of `columns`, the last one padded.
struct Split {
  int64_t tokens, vocab, columns;
  [[nodiscard]] int64_t parts() const { return ceil_div(vocab, columns); }
  [[nodiscard]] int64_t valid(int64_t part) const {
    return std::clamp<int64_t>(vocab - part * columns, 0, columns);
  }
};
const std::vector<Split> kSplits = {
    {1, 1, 1}, {13, 37, 37}, {21, 70, 40}, {9, 101, 30}, {5, 33, 11}};

struct Loss {
  std::vector<Array> logits;  // per part
  Array labels;
  Loss(const Split& s, DType type, Rng& rng) : labels(DType::kI32, {s.tokens}) {
    for (int64_t part = 0; part < s.parts(); ++part) {
      Array x = Array(type, {s.tokens, s.columns}).randomise(rng, 3);
      for (int64_t t = 0; t < s.tokens; ++t) {  // padding must not be read
        for (int64_t c = s.valid(part); c < s.columns; ++c) {
          x.set(t * s.columns + c, std::numeric_limits<double>::quiet_NaN());
        }
      }
      logits.push_back(x);
    }
    for (int64_t t = 0; t < s.tokens; ++t) {
      const auto label = static_cast<int64_t>(rng() % static_cast<uint64_t>(s.vocab));
      labels.set(t, t % 5 == 3 ? -100.0 : static_cast<double>(label));
    }
  }

  [[nodiscard]] Array all_stats(Context& ctx, const Split& s) const {
    const DType type = accumulate_type(logits[0].type());
    Array all(type, {s.parts(), s.tokens, 3});
    for (int64_t part = 0; part < s.parts(); ++part) {
      Array stats(type, {s.tokens, 3});
      cross_entropy_stats(ctx, logits[static_cast<size_t>(part)], labels, stats, part * s.columns,
                          s.valid(part));
      for (int64_t i = 0; i < stats.size(); ++i) all.set(part * s.tokens * 3 + i, stats.get(i));
    }
    return all;
  }
  [[nodiscard]] double logit(const Split& s, int64_t t, int64_t v) const {
    return logits[static_cast<size_t>(v / s.columns)].get(t * s.columns + v % s.columns);
  }
};

double loss_of(Context& ctx, const Loss& x, const Split& s) {
  Array loss(DType::kF64, {1});
  cross_entropy_loss(ctx, x.all_stats(ctx, s), x.labels, loss, false);
  return loss.get(0);
}

double reference_loss(const Loss& x, const Split& s) {
  double total = 0;
  for (int64_t t = 0; t < s.tokens; ++t) {
    if (x.labels.get(t) < 0) continue;
    double sum = 0;
    for (int64_t v = 0; v < s.vocab; ++v) sum += std::exp(x.logit(s, t, v));
    total += std::log(sum) - x.logit(s, t, static_cast<int64_t>(x.labels.get(t)));
  }
  return total;
}

TEST(CrossEntropy, LossAndGradientMatchAReference) {
  Rng rng(1);
  for (const Split& s : kSplits) {
    for (const DType type : kFloatTypes) {
      const Loss x(s, type, rng);
      const double want = reference_loss(x, s);
      for (const int threads : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("V {} in {} {}", s.vocab, s.columns, name_of(type)));
        Rig rig(threads);
        // Logits are exact in every type, so the loss is as good as its arithmetic.
        EXPECT_NEAR(loss_of(rig, x, s), want,
                    tolerance(accumulate_type(type)) * std::abs(want) + 1e-12);
        const Array all = x.all_stats(rig, s);
        for (int64_t part = 0; part < s.parts(); ++part) {
          const Array& logits = x.logits[static_cast<size_t>(part)];
          Array grad(type, {s.tokens, s.columns}), in_place = logits;
          cross_entropy_grad(rig, logits, all, x.labels, grad, part * s.columns, s.valid(part));
          cross_entropy_grad(rig, in_place, all, x.labels, in_place, part * s.columns,
                             s.valid(part));
          EXPECT_TRUE(grad.same_bits(in_place));
          std::vector<double> grad_want;
          for (int64_t t = 0; t < s.tokens; ++t) {
            double sum = 0;
            for (int64_t v = 0; v < s.vocab; ++v) sum += std::exp(x.logit(s, t, v));
            for (int64_t c = 0; c < s.columns; ++c) {
              const int64_t v = part * s.columns + c;
              const bool zero = c >= s.valid(part) || x.labels.get(t) < 0;
              const double one = v == static_cast<int64_t>(x.labels.get(t)) ? 1 : 0;
              grad_want.push_back(zero ? 0 : std::exp(x.logit(s, t, v)) / sum - one);
            }
          }
          expect_close(grad, grad_want, tolerance(type));
        }
      }
    }
  }
}

TEST(CrossEntropy, GradientMatchesFiniteDifferences) {
  Rng rng(2);
  const Split s{7, 19, 11};
  Loss x(s, DType::kF64, rng);
  Rig rig(2);
  const Array all = x.all_stats(rig, s);
  Array grad(DType::kF64, {s.tokens, s.columns});
  cross_entropy_grad(rig, x.logits[0], all, x.labels, grad, 0, s.columns);
  expect_close(grad, numeric_gradient(x.logits[0], [&] { return loss_of(rig, x, s); }),
               kNumericTolerance);
}

TEST(CrossEntropy, GradientIsScaledBeforeItIsRounded) {
  Rng rng(4);
  const Split s{5, 12, 12};
  const Loss x(s, DType::kF16, rng);
  Rig rig(1);
  const Array all = x.all_stats(rig, s);
  Array plain(DType::kF16, {s.tokens, s.columns}), scaled = plain;
  cross_entropy_grad(rig, x.logits[0], all, x.labels, plain, 0, s.columns);
  rig.params().loss_scale = 1024;
  cross_entropy_grad(rig, x.logits[0], all, x.labels, scaled, 0, s.columns);
  rig.params().loss_scale = 1;
  for (int64_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(scaled.get(i) / 1024, plain.get(i), 1e-3 * std::abs(plain.get(i)) + 1e-7);
  }
  // What f16 cannot hold unscaled is kept: a probability of e^-20.
  Array logits = Array(DType::kF16, {1, 2}).fill(0), labels(DType::kI32, {1}), grad = logits;
  Array stats(DType::kF32, {1, 3});
  labels.set(0, 0);
  logits.set(1, -20);
  cross_entropy_stats(rig, logits, labels, stats, 0, 2);
  cross_entropy_grad(rig, logits, stats, labels, grad, 0, 2);
  EXPECT_EQ(grad.get(1), 0);
  rig.params().loss_scale = 32768;
  cross_entropy_grad(rig, logits, stats, labels, grad, 0, 2);
  EXPECT_NEAR(grad.get(1), 32768 * std::exp(-20.0), 1e-7);
}

TEST(CrossEntropy, StatsOfAnEmptyPartAndOfTheLabel) {
  Rig rig;
  Array logits(DType::kF32, {2, 3}), labels(DType::kI32, {2}), stats(DType::kF32, {2, 3});
  labels.set(0, 11);
  labels.set(1, -1);
  cross_entropy_stats(rig, logits, labels, stats, 10, 0);
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(stats.values(), (std::vector<double>{-inf, 0, 0, -inf, 0, 0}));
  logits.fill(2);
  cross_entropy_stats(rig, logits, labels, stats, 10, 3);
  EXPECT_EQ(stats.values(), (std::vector<double>{2, 3, 2, 2, 3, 0}));
}

TEST(CrossEntropy, LossAccumulatesAndNaNIsNotHidden) {
  Rng rng(3);
  const Split s{13, 37, 37};
  Loss x(s, DType::kF32, rng);
  Rig rig(2);
  Array loss = Array(DType::kF64, {1}).fill(5);
  cross_entropy_loss(rig, x.all_stats(rig, s), x.labels, loss, true);
  EXPECT_NEAR(loss.get(0), 5 + loss_of(rig, x, s), 1e-9);
  x.logits[0].set(3, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isnan(loss_of(rig, x, s)));
}

TEST(CrossEntropy, HugeLogitsStayFinite) {
  const Split s{1, 3, 3};
  Rng rng(4);
  Loss x(s, DType::kF32, rng);
  x.labels.set(0, 1);
  x.logits[0].set(0, 1e4);
  x.logits[0].set(1, -1e4);
  x.logits[0].set(2, 0);
  Rig rig;
  EXPECT_NEAR(loss_of(rig, x, s), 2e4, 1e-2);
}

TEST(Embedding, TakesRowsThatLiveHereAndZerosElsewhere) {
  Rng rng(5);
  constexpr int64_t kRows = 6, kWidth = 35, kFirst = 10;
  const std::vector<double> ids = {10, 15, 9, 16, 12, -1, 12, 10, 2000000000, 11};
  Array id_array(DType::kI32, {static_cast<int64_t>(ids.size())});
  for (size_t t = 0; t < ids.size(); ++t) id_array.set(static_cast<int64_t>(t), ids[t]);
  for (const DType type : kFloatTypes) {
    const Array table = Array(type, {kRows, kWidth}).randomise(rng);
    const Array dy = Array(type, {id_array.size(), kWidth}).randomise(rng);
    std::vector<double> want, dtable_want(kRows * kWidth, 0);
    for (int64_t t = 0; t < id_array.size(); ++t) {
      const auto row = static_cast<int64_t>(ids[static_cast<size_t>(t)]) - kFirst;
      const bool here = row >= 0 && row < kRows;
      for (int64_t c = 0; c < kWidth; ++c) {
        want.push_back(here ? table.get(row * kWidth + c) : 0);
        if (here) dtable_want[static_cast<size_t>(row * kWidth + c)] += dy.get(t * kWidth + c);
      }
    }
    for (const int threads : {1, 2, 3}) {
      Rig rig(threads);
      Array y(type, {id_array.size(), kWidth}), dtable(accumulate_type(type), {kRows, kWidth});
      embedding(rig, id_array, table, y, kFirst);
      EXPECT_EQ(y.values(), want);
      embedding_dw(rig, id_array, dy, dtable, kFirst, false);
      expect_close(dtable, dtable_want, tolerance(accumulate_type(type)));
      Array twice = dtable;
      embedding_dw(rig, id_array, dy, twice, kFirst, true);
      for (int64_t i = 0; i < twice.size(); ++i) {
        EXPECT_NEAR(twice.get(i), 2 * dtable.get(i), 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::kernels
