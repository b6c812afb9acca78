// LayerNorm, biases, GELU, learned positions and norms of heads.
#include "kernels/testing/test_support.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

constexpr double kEps = 1e-5;
const std::vector<std::pair<int64_t, int64_t>> kSizes = {{1, 1}, {3, 7}, {19, 33}, {150, 300}};

// f(type, threads) for all of them.
template <typename F>
void for_each_type_and_team(const F& f) {
  for (const DType type : kFloatTypes) {
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} threads {}", name_of(type), threads));
      f(type, threads);
    }
  }
}

struct NormWant {
  std::vector<double> y, stats;
};

NormWant layer_norm_reference(const std::vector<double>& x, const Array& w, const Array& b) {
  const auto width = static_cast<size_t>(w.size());
  NormWant want;
  for (size_t row = 0; row < x.size(); row += width) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < width; ++i) mean += x[row + i] / static_cast<double>(width);
    for (size_t i = 0; i < width; ++i) {
      variance += (x[row + i] - mean) * (x[row + i] - mean) / static_cast<double>(width);
    }
    const double rstd = 1 / std::sqrt(variance + kEps);
    want.stats.insert(want.stats.end(), {mean, rstd});
    for (size_t i = 0; i < width; ++i) {
      const auto at = static_cast<int64_t>(i);
      want.y.push_back((x[row + i] - mean) * rstd * w.get(at) + b.get(at));
    }
  }
  return want;
}

TEST(LayerNorm, MatchesAReference) {
  Rng rng(1);
  for (const auto& [tokens, width] : kSizes) {
    for_each_type_and_team([&, tokens = tokens, width = width](DType type, int threads) {
      Rig rig(threads);
      const Array x = Array(type, {tokens, width}).randomise(rng);
      const Array w = Array(type, {width}).randomise(rng);
      const Array b = Array(type, {width}).randomise(rng);
      Array y(type, {tokens, width}), stats(accumulate_type(type), {tokens, 2});
      layer_norm(rig, x, w, b, y, stats, kEps);
      const NormWant want = layer_norm_reference(x.values(), w, b);
      expect_close(y, want.y, tolerance(type));
      expect_close(stats, want.stats, tolerance(accumulate_type(type)));
    });
  }
}

TEST(LayerNorm, OfASumMayOverwriteEitherTerm) {
  Rng rng(2);
  constexpr int64_t kTokens = 13, kWidth = 37;
  for (const DType type : kFloatTypes) {
    const Array a1 = Array(type, {kTokens, kWidth}).randomise(rng);
    const Array a2 = Array(type, {kTokens, kWidth}).randomise(rng);
    const Array w = Array(type, {kWidth}).randomise(rng);
    const Array b = Array(type, {kWidth}).randomise(rng);
    std::vector<double> sum_want;
    for (int64_t i = 0; i < a1.size(); ++i) sum_want.push_back(a1.get(i) + a2.get(i));
    Rig rig(2);
    for (const int target : {0, 1, 2}) {
      Array left = a1, right = a2, other(type, {kTokens, kWidth});
      Array& sum = target == 0 ? other : target == 1 ? left : right;
      Array y(type, {kTokens, kWidth}), stats(accumulate_type(type), {kTokens, 2});
      add_layer_norm(rig, left, right, w, b, sum, y, stats, kEps);
      expect_close(sum, sum_want, tolerance(type));
      expect_close(y, layer_norm_reference(sum.values(), w, b).y, tolerance(type));
    }
  }
}

struct NormGrad {
  Array dx, dw, db;
};

NormGrad layer_norm_grad(Context& ctx, const Array& dy, const Array& x, const Array& w,
                         const Array& residual, bool in_place) {
  const DType type = x.type();
  const int64_t tokens = x.tensor().dim(0), width = x.tensor().dim(1);
  Array y(type, {tokens, width}), stats(accumulate_type(type), {tokens, 2});
  layer_norm(ctx, x, w, w, y, stats, kEps);
  NormGrad grad{in_place ? residual : Array(type, {tokens, width}),
                Array(accumulate_type(type), {width}), Array(accumulate_type(type), {width})};
  const Tensor& kept = in_place ? grad.dx.tensor() : residual.tensor();
  layer_norm_dx(ctx, dy, x, w, stats, kept, grad.dx);
  layer_norm_dw(ctx, dy, x, stats, grad.dw, false);
  bias_dw(ctx, dy, grad.db, false);
  return grad;
}

TEST(LayerNorm, GradientsMatchFiniteDifferences) {
  Rng rng(3);
  constexpr int64_t kTokens = 9, kWidth = 21;
  Array x = Array(DType::kF64, {kTokens, kWidth}).randomise(rng);
  Array w = Array(DType::kF64, {kWidth}).randomise(rng);
  Array b = Array(DType::kF64, {kWidth}).randomise(rng);
  const Array dy = Array(DType::kF64, {kTokens, kWidth}).randomise(rng);
  const Array residual = Array(DType::kF64, {kTokens, kWidth}).randomise(rng);
  Rig rig(2);
  const NormGrad got = layer_norm_grad(rig, dy, x, w, residual, false);
  EXPECT_TRUE(got.dx.same_bits(layer_norm_grad(rig, dy, x, w, residual, true).dx));
  Array y = x, stats(DType::kF64, {kTokens, 2});
  const auto loss = [&] {
    layer_norm(rig, x, w, b, y, stats, kEps);
    return dot(y, dy);
  };
  std::vector<double> dx_want = numeric_gradient(x, loss);
  expect_close(got.dw, numeric_gradient(w, loss), kNumericTolerance);
  expect_close(got.db, numeric_gradient(b, loss), kNumericTolerance);
  Array dx(DType::kF64, {kTokens, kWidth});
  layer_norm_dx(rig, dy, x, w, stats, Tensor(), dx);
  expect_close(dx, dx_want, kNumericTolerance);
  for (size_t i = 0; i < dx_want.size(); ++i) dx_want[i] += residual.get(static_cast<int64_t>(i));
  expect_close(got.dx, dx_want, kNumericTolerance);
}

TEST(LayerNorm, GradientsOfEveryTypeMatchDoublePrecision) {
  Rng rng(4);
  for (const auto& [tokens, width] : kSizes) {
    for (const DType type : {DType::kF32, DType::kBF16}) {
      const Array x = Array(type, {tokens, width}).randomise(rng);
      const Array w = Array(type, {width}).randomise(rng);
      const Array dy = Array(type, {tokens, width}).randomise(rng);
      const Array residual = Array(type, {tokens, width}).randomise(rng);
      Rig rig(3);
      const NormGrad got = layer_norm_grad(rig, dy, x, w, residual, true);
      const NormGrad want =
          layer_norm_grad(rig, convert(dy, DType::kF64), convert(x, DType::kF64),
                          convert(w, DType::kF64), convert(residual, DType::kF64), false);
      expect_close(got.dx, want.dx.values(), 2 * tolerance(type));
      expect_close(got.dw, want.dw.values(), 2 * tolerance(DType::kF32));
      expect_close(got.db, want.db.values(), tolerance(DType::kF32));
    }
  }
}

TEST(Bias, IsAddedToEveryRowAndMayWorkInPlace) {
  Rng rng(5);
  for (const auto& [tokens, width] : kSizes) {
    for_each_type_and_team([&, tokens = tokens, width = width](DType type, int threads) {
      Rig rig(threads);
      const Array x = Array(type, {tokens, width}).randomise(rng);
      const Array b = Array(type, {width}).randomise(rng);
      std::vector<double> want;
      for (int64_t i = 0; i < x.size(); ++i) want.push_back(x.get(i) + b.get(i % width));
      Array y(type, {tokens, width}), in_place = x;
      add_bias(rig, x, b, y);
      expect_close(y, want, tolerance(type));
      add_bias(rig, in_place, b, in_place);
      EXPECT_TRUE(y.same_bits(in_place));
    });
  }
}

TEST(Bias, GradientSumsTheRowsAndAccumulates) {
  Rng rng(6);
  for (const auto& [tokens, width] : kSizes) {
    for_each_type_and_team([&, tokens = tokens, width = width](DType type, int threads) {
      Rig rig(threads);
      const DType wide = accumulate_type(type);
      const Array dy = Array(type, {tokens, width}).randomise(rng);
      std::vector<double> want(static_cast<size_t>(width));
      for (int64_t i = 0; i < dy.size(); ++i) want[static_cast<size_t>(i % width)] += dy.get(i);
      Array db(wide, {width});
      bias_dw(rig, dy, db, false);
      expect_close(db, want, tolerance(wide));
      bias_dw(rig, dy, db, true);
      for (double& sum : want) sum *= 2;
      expect_close(db, want, tolerance(wide));
    });
  }
}

double gelu_reference(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(Gelu, MatchesAReferenceForAllSizesOfInput) {
  Rng rng(7);
  for_each_type_and_team([&](DType type, int threads) {
    Rig rig(threads);
    Array x = Array(type, {41, 67}).randomise(rng, 2);
    for (const auto& [at, value] : {std::pair{0, -200.0}, {1, 200.0}, {2, -9.0}, {3, 0.0}}) {
      x.set(at, value);
    }
    std::vector<double> want;
    for (int64_t i = 0; i < x.size(); ++i) want.push_back(gelu_reference(x.get(i)));
    Array h(type, {41, 67}), in_place = x;
    gelu(rig, x, h);
    // Relative to the largest value that is not the planted 200.
    EXPECT_EQ(h.get(1), x.get(1));
    h.set(1, 1);
    want[1] = 1;
    expect_close(h, want, tolerance(type));
    gelu(rig, in_place, in_place);
    in_place.set(1, 1);
    EXPECT_TRUE(h.same_bits(in_place));
  });
}

TEST(Gelu, GradientsMatchFiniteDifferencesAndWorkInPlace) {
  Rng rng(8);
  Rig rig(2);
  Array x = Array(DType::kF64, {9, 19}).randomise(rng, 2);
  const Array dh = Array(DType::kF64, {9, 19}).randomise(rng);
  Array h = dh, dx(DType::kF64, {9, 19}), over_x = x, over_dh = dh;
  gelu_grad(rig, dh, x, dx);
  gelu_grad(rig, dh, over_x, over_x);
  gelu_grad(rig, over_dh, x, over_dh);
  EXPECT_TRUE(dx.same_bits(over_x));
  EXPECT_TRUE(dx.same_bits(over_dh));
  const auto loss = [&] {
    gelu(rig, x, h);
    return dot(h, dh);
  };
  expect_close(dx, numeric_gradient(x, loss), kNumericTolerance);
  for (const DType type : {DType::kF32, DType::kBF16}) {
    const Array low_x = convert(x, type), low_dh = convert(dh, type);
    Array got(type, {9, 19}), want(DType::kF64, {9, 19});
    gelu_grad(rig, low_dh, low_x, got);
    gelu_grad(rig, convert(low_dh, DType::kF64), convert(low_x, DType::kF64), want);
    expect_close(got, want.values(), tolerance(type));
  }
}

// The tokens of a rank may begin inside a sequence.
TEST(Positions, AddTheirRowAndSumItsGradient) {
  Rng rng(9);
  constexpr int64_t kSeq = 5, kRows = 8, kTokens = 13, kWidth = 21, kFirst = 7;
  const SequenceRows rows{kSeq, 1, 0};
  for_each_type_and_team([&](DType type, int threads) {
    Rig rig(threads);
    const DType wide = accumulate_type(type);
    const Array x = Array(type, {kTokens, kWidth}).randomise(rng);
    const Array table = Array(type, {kRows, kWidth}).randomise(rng);
    std::vector<double> want, sums(static_cast<size_t>(kRows * kWidth));
    for (int64_t i = 0; i < x.size(); ++i) {
      const int64_t at = (kFirst + i / kWidth) % kSeq * kWidth + i % kWidth;
      want.push_back(x.get(i) + table.get(at));
      sums[static_cast<size_t>(at)] += x.get(i);
    }
    Array y(type, {kTokens, kWidth}), in_place = x, dtable(wide, {kRows, kWidth});
    add_positions(rig, x, table, y, rows, kFirst);
    expect_close(y, want, tolerance(type));
    add_positions(rig, in_place, table, in_place, rows, kFirst);
    EXPECT_TRUE(y.same_bits(in_place));
    positions_dw(rig, x, dtable, rows, kFirst, false);
    expect_close(dtable, sums, tolerance(wide));
    positions_dw(rig, x, dtable, rows, kFirst, true);
    for (double& sum : sums) sum *= 2;
    expect_close(dtable, sums, tolerance(wide));
    EXPECT_THROW(add_positions(rig, x, table, y, SequenceRows{kRows + 1, 1, 0}, 0), InternalError);
  });
}

// Part 1 of 2 holds the second and third quarter of every sequence.
TEST(Positions, FollowTheRowsOfAPart) {
  Rig rig;
  const Array x = Array(DType::kF64, {8, 1}).fill(0);
  Array table(DType::kF64, {8, 1}), y(DType::kF64, {8, 1}), dtable(DType::kF64, {8, 1});
  for (int64_t i = 0; i < 8; ++i) table.set(i, static_cast<double>(i));
  const SequenceRows rows{8, 2, 1};
  add_positions(rig, x, table, y, rows, 0);
  expect_close(y, {2, 3, 4, 5, 2, 3, 4, 5}, 0);
  positions_dw(rig, y, dtable, rows, 0, false);
  expect_close(dtable, {0, 0, 4, 6, 8, 10, 0, 0}, 0);
}

struct HeadCase {
  int64_t tokens, heads, dim, rest;  // `rest` columns after the heads are copied
};
const std::vector<HeadCase> kHeadCases = {
    {1, 1, 1, 0}, {5, 3, 7, 4}, {70, 2, 16, 0}, {9, 4, 33, 5}};

TEST(HeadNorm, NormalisesEveryHeadAndCopiesTheRest) {
  Rng rng(10);
  for (const HeadCase& c : kHeadCases) {
    const int64_t width = c.heads * c.dim + c.rest;
    for_each_type_and_team([&](DType type, int threads) {
      Rig rig(threads);
      const Array x = Array(type, {c.tokens, width}).randomise(rng);
      const Array w = Array(type, {c.dim}).randomise(rng);
      std::vector<double> want = x.values(), rstd_want;
      for (int64_t t = 0; t < c.tokens; ++t) {
        for (int64_t h = 0; h < c.heads; ++h) {
          const int64_t at = t * width + h * c.dim;
          double squares = 0;
          for (int64_t i = 0; i < c.dim; ++i) squares += x.get(at + i) * x.get(at + i);
          rstd_want.push_back(1 / std::sqrt(squares / static_cast<double>(c.dim) + kEps));
          for (int64_t i = 0; i < c.dim; ++i) {
            want[static_cast<size_t>(at + i)] *= rstd_want.back() * w.get(i);
          }
        }
      }
      Array y(type, {c.tokens, width}), rstd(accumulate_type(type), {c.tokens, c.heads});
      head_norm(rig, x, w, y, rstd, kEps);
      expect_close(y, want, tolerance(type));
      expect_close(rstd, rstd_want, 2 * tolerance(accumulate_type(type)));
    });
  }
}

TEST(HeadNorm, GradientsMatchFiniteDifferencesAndDoublePrecision) {
  Rng rng(11);
  for (const HeadCase& c : kHeadCases) {
    const int64_t width = c.heads * c.dim + c.rest;
    Rig rig(2);
    Array x = Array(DType::kF64, {c.tokens, width}).randomise(rng);
    Array w = Array(DType::kF64, {c.dim}).randomise(rng);
    const Array dy = Array(DType::kF64, {c.tokens, width}).randomise(rng);
    Array y = x, rstd(DType::kF64, {c.tokens, c.heads});
    const auto loss = [&] {
      head_norm(rig, x, w, y, rstd, kEps);
      return dot(y, dy);
    };
    const std::vector<double> dx_want = numeric_gradient(x, loss);
    const std::vector<double> dw_want = numeric_gradient(w, loss);
    loss();
    Array dx(DType::kF64, {c.tokens, width}), in_place = dy, dw(DType::kF64, {c.dim});
    head_norm_dx(rig, dy, x, w, rstd, dx);
    head_norm_dx(rig, in_place, x, w, rstd, in_place);
    head_norm_dw(rig, dy, x, rstd, dw, false);
    EXPECT_TRUE(dx.same_bits(in_place));
    expect_close(dx, dx_want, 10 * kNumericTolerance);
    expect_close(dw, dw_want, kNumericTolerance);
    head_norm_dw(rig, dy, x, rstd, dw, true);
    std::vector<double> twice = dw_want;
    for (double& sum : twice) sum *= 2;
    expect_close(dw, twice, kNumericTolerance);
    for (const DType type : {DType::kF32, DType::kBF16}) {
      const DType wide = accumulate_type(type);
      const Array lx = convert(x, type), lw = convert(w, type), ldy = convert(dy, type);
      const Array ex = convert(lx, DType::kF64), ew = convert(lw, DType::kF64);
      const Array edy = convert(ldy, DType::kF64);
      Array ldx(type, {c.tokens, width}), ldw(wide, {c.dim}), lrstd = convert(rstd, wide);
      Array ly(type, {c.tokens, width});
      head_norm(rig, lx, lw, ly, lrstd, kEps);
      head_norm(rig, ex, ew, y, rstd, kEps);
      head_norm_dx(rig, ldy, lx, lw, lrstd, ldx);
      head_norm_dx(rig, edy, ex, ew, rstd, dx);
      head_norm_dw(rig, ldy, lx, lrstd, ldw, false);
      head_norm_dw(rig, edy, ex, rstd, dw, false);
      if (c.dim > 1) expect_close(ldx, dx.values(), 4 * tolerance(type));
      expect_close(ldw, dw.values(), 2 * tolerance(DType::kF32));
    }
  }
}

TEST(HeadNorm, RefusesHeadsThatDoNotFit) {
  Rig rig;
  const Array x = Array(DType::kF32, {2, 6}).fill(1), w = Array(DType::kF32, {4}).fill(1);
  Array y(DType::kF32, {2, 6}), rstd(DType::kF32, {2, 2});
  EXPECT_THROW(head_norm(rig, x, w, y, rstd, kEps), InternalError);
}

}  // namespace
}  // namespace tessera::kernels
