// RMSNorm, rotary positions and SwiGLU.
#include "kernels/testing/test_support.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

constexpr double kEps = 1e-5;
const std::vector<std::pair<int64_t, int64_t>> kSizes = {{1, 1}, {3, 7}, {19, 33}, {150, 300}};

struct NormWant {
  std::vector<double> y, rstd;
};

NormWant norm_reference(const std::vector<double>& x, const Array& w, int64_t tokens) {
  const auto width = static_cast<int64_t>(w.size());
  NormWant want;
  for (int64_t t = 0; t < tokens; ++t) {
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) {
      squares += x[static_cast<size_t>(t * width + i)] * x[static_cast<size_t>(t * width + i)];
    }
    want.rstd.push_back(1 / std::sqrt(squares / static_cast<double>(width) + kEps));
    for (int64_t i = 0; i < width; ++i) {
      want.y.push_back(x[static_cast<size_t>(t * width + i)] * want.rstd.back() * w.get(i));
    }
  }
  return want;
}

TEST(RmsNorm, MatchesAReference) {
  Rng rng(1);
  for (const auto& [tokens, width] : kSizes) {
    for (const DType type : kFloatTypes) {
      for (const int threads : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{}x{} {} threads {}", tokens, width, name_of(type), threads));
        Rig rig(threads);
        const Array x = Array(type, {tokens, width}).randomise(rng);
        const Array w = Array(type, {width}).randomise(rng);
        Array y(type, {tokens, width}), rstd(accumulate_type(type), {tokens});
        rms_norm(rig, x, w, y, rstd, kEps);
        const NormWant want = norm_reference(x.values(), w, tokens);
        expect_close(y, want.y, tolerance(type));
        expect_close(rstd, want.rstd, tolerance(accumulate_type(type)));
      }
    }
  }
}

TEST(RmsNorm, OfASumMayOverwriteEitherTerm) {
  Rng rng(2);
  constexpr int64_t kTokens = 13, kWidth = 37;
  for (const DType type : kFloatTypes) {
    const Array a = Array(type, {kTokens, kWidth}).randomise(rng);
    const Array b = Array(type, {kTokens, kWidth}).randomise(rng);
    const Array w = Array(type, {kWidth}).randomise(rng);
    std::vector<double> sum_want;
    for (int64_t i = 0; i < a.size(); ++i) sum_want.push_back(a.get(i) + b.get(i));
    Rig rig(2);
    for (const int target : {0, 1, 2}) {
      Array left = a, right = b, other(type, {kTokens, kWidth});
      Array& sum = target == 0 ? other : target == 1 ? left : right;
      Array y(type, {kTokens, kWidth}), rstd(accumulate_type(type), {kTokens});
      add_rms_norm(rig, left, right, w, sum, y, rstd, kEps);
      expect_close(sum, sum_want, tolerance(type));
      const NormWant want = norm_reference(sum.values(), w, kTokens);
      expect_close(y, want.y, tolerance(type));
      expect_close(rstd, want.rstd, tolerance(accumulate_type(type)));
    }
  }
}

struct NormGrad {
  Array dx, dw;
};

NormGrad norm_grad(Context& ctx, const Array& dy, const Array& x, const Array& w,
                   const Array& residual, bool in_place) {
  const DType type = x.type();
  const int64_t tokens = x.tensor().dim(0), width = x.tensor().dim(1);
  Array y(type, {tokens, width}), rstd(accumulate_type(type), {tokens});
  rms_norm(ctx, x, w, y, rstd, kEps);
  NormGrad grad{in_place ? residual : Array(type, {tokens, width}),
                Array(accumulate_type(type), {width})};
  const Tensor& kept = in_place ? grad.dx.tensor() : residual.tensor();
  rms_norm_dx(ctx, dy, x, w, rstd, kept, grad.dx);
  rms_norm_dw(ctx, dy, x, rstd, grad.dw, false);
  return grad;
}

TEST(RmsNorm, GradientsMatchFiniteDifferencesAndEachOther) {
  Rng rng(3);
  constexpr int64_t kTokens = 9, kWidth = 21;
  Array x = Array(DType::kF64, {kTokens, kWidth}).randomise(rng);
  Array w = Array(DType::kF64, {kWidth}).randomise(rng);
  const Array dy = Array(DType::kF64, {kTokens, kWidth}).randomise(rng);
  const Array residual = Array(DType::kF64, {kTokens, kWidth}).randomise(rng);
  Rig rig(2);
  const NormGrad got = norm_grad(rig, dy, x, w, residual, false);
  const NormGrad in_place = norm_grad(rig, dy, x, w, residual, true);
  EXPECT_TRUE(got.dx.same_bits(in_place.dx));

  Array y = x, rstd(DType::kF64, {kTokens});
  const auto loss = [&] {
    rms_norm(rig, x, w, y, rstd, kEps);
    return dot(y, dy);
  };
  std::vector<double> dx_want = numeric_gradient(x, loss);
  expect_close(got.dw, numeric_gradient(w, loss), kNumericTolerance);
  Tensor no_residual;
  Array dx(DType::kF64, {kTokens, kWidth});
  rms_norm_dx(rig, dy, x, w, rstd, no_residual, dx);
  expect_close(dx, dx_want, kNumericTolerance);
  for (size_t i = 0; i < dx_want.size(); ++i) dx_want[i] += residual.get(static_cast<int64_t>(i));
  expect_close(got.dx, dx_want, kNumericTolerance);
}

TEST(RmsNorm, GradientsOfEveryTypeMatchDoublePrecision) {
  Rng rng(4);
  for (const auto& [tokens, width] : kSizes) {
    for (const DType type : {DType::kF32, DType::kBF16}) {
      for (const int threads : {1, 2, 3}) {
        const Array x = Array(type, {tokens, width}).randomise(rng);
        const Array w = Array(type, {width}).randomise(rng);
        const Array dy = Array(type, {tokens, width}).randomise(rng);
        const Array residual = Array(type, {tokens, width}).randomise(rng);
        Rig rig(threads);
        const NormGrad got = norm_grad(rig, dy, x, w, residual, true);
        const NormGrad want =
            norm_grad(rig, convert(dy, DType::kF64), convert(x, DType::kF64),
                      convert(w, DType::kF64), convert(residual, DType::kF64), false);
        expect_close(got.dx, want.dx.values(), 2 * tolerance(type));
        expect_close(got.dw, want.dw.values(), tolerance(DType::kF32));
      }
    }
  }
}

TEST(RmsNorm, WeightGradientAccumulates) {
  Rng rng(5);
  Rig rig(2);
  const Array x = Array(DType::kBF16, {40, 70}).randomise(rng);
  const Array rstd = Array(DType::kF32, {40}).fill(0.5);
  Array dw(DType::kF32, {70}), more = Array(DType::kF32, {70}).fill(3);
  rms_norm_dw(rig, x, x, rstd, dw, false);
  rms_norm_dw(rig, x, x, rstd, more, true);
  for (int64_t i = 0; i < 70; ++i) EXPECT_FLOAT_EQ(float(more.get(i)), float(dw.get(i) + 3));
}

TEST(Rope, RotatesTheFirstHeadsCopiesTheRestAndTurnsBack) {
  Rng rng(6);
  constexpr int64_t kSeq = 5, kTokens = 15, kHalf = 3, kHeads = 2, kWidth = 4 * 2 * kHalf;
  for (const DType type : kFloatTypes) {
    Array cos(accumulate_type(type), {kSeq, kHalf}), sin = cos;
    for (int64_t i = 0; i < cos.size(); ++i) {
      cos.set(i, std::cos(0.3 * static_cast<double>(i)));
      sin.set(i, std::sin(0.3 * static_cast<double>(i)));
    }
    const Array x = Array(type, {kTokens, kWidth}).randomise(rng);
    std::vector<double> want = x.values();
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t d = 0; d < kHalf; ++d) {
          const int64_t at = t * kWidth + h * 2 * kHalf + d;
          const double angle = 0.3 * static_cast<double>(t % kSeq * kHalf + d);
          want[static_cast<size_t>(at)] =
              x.get(at) * std::cos(angle) - x.get(at + kHalf) * std::sin(angle);
          want[static_cast<size_t>(at + kHalf)] =
              x.get(at + kHalf) * std::cos(angle) + x.get(at) * std::sin(angle);
        }
      }
    }
    for (const int threads : {1, 2, 3}) {
      Rig rig(threads);
      Array y(type, {kTokens, kWidth}), in_place = x;
      rope(rig, x, cos, sin, y, kHeads, false);
      expect_close(y, want, tolerance(type));
      rope(rig, in_place, cos, sin, in_place, kHeads, false);
      EXPECT_TRUE(y.same_bits(in_place));
      rope(rig, in_place, cos, sin, in_place, kHeads, true);
      expect_close(in_place, x.values(), 2 * tolerance(type));
    }
    Rig rig;
    Array y(type, {kTokens, kWidth});
    EXPECT_THROW(rope(rig, x, cos, sin, y, 5, false), InternalError);
  }
}

TEST(SwiGlu, MatchesAReferenceForAllGates) {
  Rng rng(7);
  constexpr int64_t kTokens = 11, kWidth = 45;
  for (const DType type : kFloatTypes) {
    Array gate_up = Array(type, {kTokens, 2 * kWidth}).randomise(rng, 4);
    gate_up.set(0, -200);
    gate_up.set(1, 200);
    gate_up.set(2, -90);
    std::vector<double> want;
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t i = 0; i < kWidth; ++i) {
        const double gate = gate_up.get(t * 2 * kWidth + i);
        want.push_back(gate / (1 + std::exp(-gate)) * gate_up.get((t * 2 + 1) * kWidth + i));
      }
    }
    for (const int threads : {1, 2, 3}) {
      Rig rig(threads);
      Array h(type, {kTokens, kWidth});
      swiglu(rig, gate_up, h);
      expect_close(h, want, tolerance(type));
    }
  }
}

TEST(SwiGlu, GradientsMatchFiniteDifferencesAndWorkInPlace) {
  Rng rng(8);
  constexpr int64_t kTokens = 9, kWidth = 19;
  Rig rig(2);
  Array gate_up = Array(DType::kF64, {kTokens, 2 * kWidth}).randomise(rng, 2);
  const Array dh = Array(DType::kF64, {kTokens, kWidth}).randomise(rng);
  Array h = dh, grad(DType::kF64, {kTokens, 2 * kWidth}), in_place = gate_up;
  swiglu_grad(rig, dh, gate_up, grad);
  swiglu_grad(rig, dh, in_place, in_place);
  EXPECT_TRUE(grad.same_bits(in_place));
  const auto loss = [&] {
    swiglu(rig, gate_up, h);
    return dot(h, dh);
  };
  expect_close(grad, numeric_gradient(gate_up, loss), kNumericTolerance);
  for (const DType type : {DType::kF32, DType::kBF16}) {
    const Array low_dh = convert(dh, type);
    Array low = convert(gate_up, type);
    Array exact = convert(low, DType::kF64);
    swiglu_grad(rig, convert(low_dh, DType::kF64), exact, exact);
    swiglu_grad(rig, low_dh, low, low);
    expect_close(low, exact.values(), tolerance(type));
  }
}

}  // namespace
}  // namespace tessera::kernels
