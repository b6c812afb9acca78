#include "kernels/cpu/gemm.h"
#include "kernels/testing/test_support.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

struct Sizes {
  int64_t tokens, out, in;
};
// Odd, tiny, and (last) larger than one bf16 block in every direction.
const std::vector<Sizes> kSizes = {
    {1, 1, 1}, {7, 5, 3}, {33, 17, 65}, {70, 129, 31}, {530, 517, 521}};

std::vector<double> product(const Array& a, bool trans_a, const Array& b, bool trans_b, int64_t m,
                            int64_t n, int64_t k) {
  const std::vector<double> left = a.values(), right = b.values();
  std::vector<double> c(static_cast<size_t>(m * n), 0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t p = 0; p < k; ++p) {
      const double value = left[static_cast<size_t>(trans_a ? p * m + i : i * k + p)];
      for (int64_t j = 0; j < n; ++j) {
        c[static_cast<size_t>(i * n + j)] +=
            value * right[static_cast<size_t>(trans_b ? j * k + p : p * n + j)];
      }
    }
  }
  return c;
}

void add_to(std::vector<double>& sum, const Array& x) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += x.get(static_cast<int64_t>(i));
}

TEST(Linear, MatchesAReferenceForEveryTypeShapeAndTeam) {
  Rng rng(1);
  for (const Sizes& s : kSizes) {
    for (const DType type : kFloatTypes) {
      const Array x = Array(type, {s.tokens, s.in}).randomise(rng);
      const Array w = Array(type, {s.out, s.in}).randomise(rng);
      const Array dy = Array(type, {s.tokens, s.out}).randomise(rng);
      const auto y_want = product(x, false, w, true, s.tokens, s.out, s.in);
      const auto dx_want = product(dy, false, w, false, s.tokens, s.in, s.out);
      const auto dw_want = product(dy, true, x, false, s.out, s.in, s.tokens);
      for (const int threads : {1, 2, 3}) {
        SCOPED_TRACE(
            fmt::format("{}x{}x{} {} threads {}", s.tokens, s.out, s.in, name_of(type), threads));
        Rig rig(threads, workspace::linear(type, s.tokens, s.out, s.in, threads));
        Array y(type, {s.tokens, s.out}), dx(type, {s.tokens, s.in});
        Array dw(accumulate_type(type), {s.out, s.in});
        linear(rig, x, w, y);
        linear_dx(rig, dy, w, dx, false);
        linear_dw(rig, dy, x, dw, false);
        expect_close(y, y_want, tolerance(type));
        expect_close(dx, dx_want, tolerance(type));
        // bf16 operands, but summed and stored in f32.
        expect_close(dw, dw_want, tolerance(accumulate_type(type)));
      }
    }
  }
}

TEST(Linear, AccumulateAddsToWhatIsThere) {
  Rng rng(2);
  const Sizes s{37, 21, 45};
  for (const DType type : kFloatTypes) {
    for (const int threads : {1, 2}) {
      Rig rig(threads, workspace::linear(type, s.tokens, s.out, s.in, threads));
      const Array x = Array(type, {s.tokens, s.in}).randomise(rng);
      const Array w = Array(type, {s.out, s.in}).randomise(rng);
      const Array dy = Array(type, {s.tokens, s.out}).randomise(rng);
      Array dx = Array(type, {s.tokens, s.in}).randomise(rng);
      Array dw = Array(accumulate_type(type), {s.out, s.in}).randomise(rng);
      auto dx_want = product(dy, false, w, false, s.tokens, s.in, s.out);
      auto dw_want = product(dy, true, x, false, s.out, s.in, s.tokens);
      add_to(dx_want, dx);
      add_to(dw_want, dw);
      linear_dx(rig, dy, w, dx, true);
      linear_dw(rig, dy, x, dw, true);
      expect_close(dx, dx_want, tolerance(type));
      expect_close(dw, dw_want, tolerance(accumulate_type(type)));
    }
  }
}

TEST(Linear, NoTokensGiveZeroWeightGradients) {
  for (const DType type : kFloatTypes) {
    Rig rig(2, workspace::linear(type, 0, 3, 5, 2));
    const Array dy(type, {0, 3}), x(type, {0, 5}), w = Array(type, {3, 5}).fill(1);
    Array y(type, {0, 3});
    Array dw(accumulate_type(type), {3, 5});
    linear(rig, x, w, y);
    linear_dw(rig, dy, x, dw, false);
    EXPECT_EQ(dw.values(), std::vector<double>(15, 0.0));
    dw.fill(2);
    linear_dw(rig, dy, x, dw, true);
    EXPECT_EQ(dw.values(), std::vector<double>(15, 2.0));
  }
}

TEST(Linear, RepeatsBitForBit) {
  Rng rng(3);
  const Array x = Array(DType::kF32, {130, 70}).randomise(rng);
  const Array w = Array(DType::kF32, {90, 70}).randomise(rng);
  Rig rig(3);
  Array first(DType::kF32, {130, 90}), again(DType::kF32, {130, 90});
  linear(rig, x, w, first);
  linear(rig, x, w, again);
  EXPECT_TRUE(first.same_bits(again));
}

// Members may share out rows and columns in any way: grids of 2 x 2, 5 x 1 and 3 x 2 here.
TEST(Linear, TheNumberOfThreadsDoesNotChangeABit) {
  if (!cpu::gemm_takes_narrow()) GTEST_SKIP() << "bits of a library may depend on the shape";
  Rng rng(4);
  for (const DType type : kFloatTypes) {
    const Array x = Array(type, {150, 700}).randomise(rng);
    const Array w = Array(type, {130, 700}).randomise(rng);
    Array first(type, {150, 130});
    Rig alone(1, workspace::linear(type, 150, 130, 700, 1));
    linear(alone, x, w, first);
    for (const int threads : {4, 5, 6}) {
      Rig rig(threads, workspace::linear(type, 150, 130, 700, threads));
      Array y(type, {150, 130});
      linear(rig, x, w, y);
      EXPECT_TRUE(first.same_bits(y)) << name_of(type) << ", threads: " << threads;
    }
  }
}

TEST(Linear, RefusesWrongShapesTypesAndWorkspaces) {
  Rig rig;
  const Array x(DType::kF32, {4, 3}), w(DType::kF32, {5, 3});
  Array y(DType::kF32, {4, 5}), wrong(DType::kF32, {4, 6}), f64(DType::kF64, {4, 5});
  EXPECT_NO_THROW(linear(rig, x, w, y));
  EXPECT_THROW(linear(rig, x, w, wrong), InternalError);
  EXPECT_THROW(linear(rig, x, w, f64), InternalError);
  const Array xb(DType::kBF16, {4, 3}), wb(DType::kBF16, {5, 3});
  Array yb(DType::kBF16, {4, 5}), dw_f16(DType::kF16, {5, 3});
  Rig small(1, workspace::linear(DType::kBF16, 4, 5, 3, 1) - 1);
  EXPECT_THROW(linear(small, xb, wb, yb), InternalError);
  Rig enough(1, workspace::linear(DType::kBF16, 4, 5, 3, 1));
  EXPECT_NO_THROW(linear(enough, xb, wb, yb));
  EXPECT_THROW(linear_dw(enough, yb, xb, dw_f16, false), InternalError);
}

// A fused kernel looks at all of its arguments before it computes the first of its parts.
TEST(Linear, WithWhatFollowsRefusesBeforeItWrites) {
  Rig rig;
  const Array x = Array(DType::kF32, {4, 3}).fill(1), w = Array(DType::kF32, {5, 3}).fill(1);
  const Array b = Array(DType::kF32, {5}).fill(1), long_b = Array(DType::kF32, {6}).fill(1);
  Array z(DType::kF32, {4, 5}), h(DType::kF32, {4, 5}), wide_h(DType::kF32, {4, 6});
  EXPECT_THROW(linear_bias(rig, x, w, long_b, z, h), InternalError);
  EXPECT_THROW(linear_bias(rig, x, w, b, z, wide_h), InternalError);
  EXPECT_TRUE(std::isnan(z.get(0)));
  linear_bias(rig, x, w, b, z, h);
  EXPECT_EQ(z.get(0), 4);

  Array dz(DType::kF32, {4, 3}), dw(DType::kF32, {5, 3}), db(DType::kF32, {5});
  Array long_db(DType::kF32, {6});
  EXPECT_THROW(linear_dx_gelu(rig, z, w, z, dz), InternalError) << "z of another width than dz";
  EXPECT_TRUE(std::isnan(dz.get(0)));
  EXPECT_THROW(linear_dw_bias(rig, z, x, dw, long_db, false), InternalError);
  EXPECT_TRUE(std::isnan(dw.get(0)));
  linear_dw_bias(rig, z, x, dw, db, false);
  EXPECT_EQ(db.get(0), 16);
}

TEST(Linear, BFloat16WorkspaceDoesNotGrowWithTheShape) {
  EXPECT_EQ(workspace::linear(DType::kBF16, 4096, 50000, 4096, 2),
            workspace::linear(DType::kBF16, 8192, 100000, 8192, 2));
  EXPECT_EQ(workspace::linear(DType::kF32, 4096, 50000, 4096, 2), 0);
}

TEST(Blas, HasAName) { EXPECT_GT(std::string(blas_name()).size(), 5U) << blas_name(); }

}  // namespace
}  // namespace tessera::kernels
