#include "kernels/testing/test_support.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

constexpr int64_t kMany = 20011;  // several blocks and an odd rest

TEST(Add, MayOverwriteEitherTerm) {
  Rng rng(1);
  for (const DType type : kFloatTypes) {
    for (const int threads : {1, 2, 3}) {
      Rig rig(threads);
      Array a = Array(type, {kMany}).randomise(rng), b = Array(type, {kMany}).randomise(rng);
      std::vector<double> want;
      for (int64_t i = 0; i < kMany; ++i) want.push_back(a.get(i) + b.get(i));
      Array y(type, {kMany}), left = a, right = b;
      add(rig, a, b, y);
      expect_close(y, want, tolerance(type));
      add(rig, left, b, left);
      add(rig, a, right, right);
      EXPECT_TRUE(left.same_bits(y));
      EXPECT_TRUE(right.same_bits(y));
    }
  }
}

TEST(Movement, CopyConvertsBetweenAllTypes) {
  Rng rng(2);
  Rig rig(2);
  for (const DType from : kFloatTypes) {
    const Array x = Array(from, {kMany}).randomise(rng);
    for (const DType to : kFloatTypes) {
      Array y(to, {kMany});
      copy(rig, x, y);
      EXPECT_TRUE(y.same_bits(convert(x, to)));
    }
  }
  Array ids = Array(DType::kI32, {7}).fill(3), out(DType::kI32, {7}), f32(DType::kF32, {7});
  copy(rig, ids, out);
  EXPECT_TRUE(out.same_bits(ids));
  EXPECT_THROW(copy(rig, ids, f32), InternalError);
}

TEST(Movement, FillScaleAndAccumulate) {
  Rng rng(3);
  for (const DType type : kFloatTypes) {
    Rig rig(3);
    Array x = Array(type, {kMany}).randomise(rng);
    Array y = Array(accumulate_type(type), {kMany}).randomise(rng);
    std::vector<double> scaled, sum;
    for (int64_t i = 0; i < kMany; ++i) scaled.push_back(x.get(i) * 0.3);
    scale(rig, x, 0.3);
    expect_close(x, scaled, tolerance(type));
    for (int64_t i = 0; i < kMany; ++i) sum.push_back(x.get(i) + y.get(i));
    accumulate_into(rig, x, y);
    expect_close(y, sum, tolerance(accumulate_type(type)));
    fill_zero(rig, x);
    EXPECT_EQ(x.values(), std::vector<double>(kMany, 0.0));
  }
}

TEST(FirstNonfinite, FindsTheFirstOfEveryKind) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const DType type : kFloatTypes) {
    Array x = Array(type, {5000}).fill(type == DType::kF16 ? 6e4 : 1e30);
    EXPECT_EQ(first_nonfinite(x), -1);
    x.set(4999, kInf);
    EXPECT_EQ(first_nonfinite(x), 4999);
    x.set(2049, -kInf);
    EXPECT_EQ(first_nonfinite(x), 2049);
    x.set(7, std::numeric_limits<double>::quiet_NaN());
    EXPECT_EQ(first_nonfinite(x), 7);
  }
  EXPECT_EQ(first_nonfinite(Array(DType::kI32, {9}).fill(-1)), -1);
  EXPECT_EQ(first_nonfinite(Array(DType::kF32, {0})), -1);
}

}  // namespace
}  // namespace tessera::kernels
