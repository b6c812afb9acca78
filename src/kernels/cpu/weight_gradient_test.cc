// Weight gradients stored as bf16 are those stored as f32, rounded once.
#include "kernels/testing/weight_gradient_cases.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

std::vector<Tensor> tensors_of(const std::vector<Array>& arrays) {
  return {arrays.begin(), arrays.end()};
}

TEST(WeightGradients, AreRoundedOnceToBf16) {
  Rng rng(71);
  for (const int threads : {1, 3}) {
    for (const auto& [tokens, width] : {std::pair(1, 7), std::pair(33, 40), std::pair(700, 65)}) {
      for (const WeightGradientCase& c : weight_gradient_cases(tokens, width, threads, rng)) {
        SCOPED_TRACE(fmt::format("{}, {} x {}, {} threads", c.name, tokens, width, threads));
        Rig rig(threads, c.cpu_bytes);
        const std::vector<Tensor> in = tensors_of(c.inputs);
        Array wide = c.gradient, narrow = convert(c.gradient, DType::kBF16);
        c.run(rig, in, wide, false);
        c.run(rig, in, narrow, false);
        EXPECT_TRUE(narrow.same_bits(convert(wide, DType::kBF16)));
        Array sum = convert(narrow, DType::kF32);
        c.run(rig, in, sum, true);
        c.run(rig, in, narrow, true);
        // Where the sum in f32 lies in the middle, it may be rounded either way.
        expect_close(narrow, sum.values(), 1.01 * kBf16Rounding);
      }
    }
  }
}

TEST(WeightGradients, OfOtherTypesAreRefused) {
  Rng rng(72);
  for (const WeightGradientCase& c : weight_gradient_cases(7, 8, 1, rng)) {
    Rig rig(1, c.cpu_bytes);
    Array f16 = convert(c.gradient, DType::kF16);
    EXPECT_THROW(c.run(rig, tensors_of(c.inputs), f16, false), InternalError) << c.name;
  }
  Rig rig;
  const Array f32(DType::kF32, {4}), f16(DType::kF16, {4});
  Array bf16(DType::kBF16, {4});
  EXPECT_THROW(accumulate_into(rig, f32, bf16), InternalError);
  EXPECT_THROW(accumulate_into(rig, f16, bf16), InternalError);
}

TEST(WeightGradients, OfBf16AddUpInF32) {
  Rng rng(73);
  Rig rig(2);
  const Array x = Array(DType::kBF16, {1000}).randomise(rng);
  Array sum = Array(DType::kBF16, {1000}).randomise(rng), expected = convert(sum, DType::kF32);
  accumulate_into(rig, x, expected);
  accumulate_into(rig, x, sum);
  EXPECT_TRUE(sum.same_bits(convert(expected, DType::kBF16)));
}

// The update of bf16 gradients is that of the same numbers in f32.
TEST(WeightGradients, OfBf16UpdateLikeTheSameInF32) {
  Rng rng(74);
  Rig rig(2);
  rig.params().lr = 0.01;
  constexpr int64_t kCount = 9001;
  const Array grad = Array(DType::kBF16, {kCount}).randomise(rng);
  const Array same = convert(grad, DType::kF32), tokens = Array(DType::kF64, {1}).fill(3);
  for (const DType master_type : {DType::kF32, DType::kBF16}) {
    Array m = Array(DType::kF32, {kCount}).randomise(rng, 0.1);
    Array v = Array(DType::kF32, {kCount}).fill(0.1);
    Array master = Array(master_type, {kCount}).fill(0);
    Array weight = Array(DType::kBF16, {kCount}).randomise(rng);
    Array m_wide = m, v_wide = v, master_wide = master, weight_wide = weight;
    const UpdatedTensors narrow{master, m, v, grad, weight, true};
    const UpdatedTensors wide{master_wide, m_wide, v_wide, same, weight_wide, true};
    adamw(rig, std::span(&narrow, 1), tokens, {});
    adamw(rig, std::span(&wide, 1), tokens, {});
    EXPECT_TRUE(m.same_bits(m_wide) && v.same_bits(v_wide));
    EXPECT_TRUE(master.same_bits(master_wide) && weight.same_bits(weight_wide));
  }
}

}  // namespace
}  // namespace tessera::kernels
