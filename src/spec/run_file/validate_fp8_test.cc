#include "spec/run_file/validate_fp8.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

RunSpec fp8_run() {
  RunSpec spec;
  spec.model.layers = 4;
  spec.model.hidden = 256;
  spec.model.ffn = 512;
  spec.model.heads = 8;
  spec.model.kv_heads = 4;
  spec.model.vocab = 256;
  spec.train.dtype = DType::kBF16;
  spec.train.fp8.asked = true;
  return spec;
}

std::string refusal(const std::function<void(RunSpec&)>& change) {
  RunSpec spec = fp8_run();
  change(spec);
  try {
    resolve(spec);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

void expect_refused(const std::function<void(RunSpec&)>& change, const std::string& part) {
  const std::string why = refusal(change);
  EXPECT_NE(why.find(part), std::string::npos) << why;
}

TEST(Fp8Spec, TheRecipeIsTensorUnlessAnotherIsNamed) {
  RunSpec spec = fp8_run();
  resolve(spec);
  EXPECT_EQ(spec.train.fp8.recipe, Fp8Recipe::kTensor);
  EXPECT_EQ(spec.train.dtype_name(), "fp8");
  spec = fp8_run();
  spec.train.fp8.recipe = Fp8Recipe::kRow;
  resolve(spec);
  EXPECT_EQ(spec.train.fp8.recipe, Fp8Recipe::kRow);
}

TEST(Fp8Spec, ARecipeBesideF32AndF64QuantisesAlone) {
  for (const DType type : {DType::kF32, DType::kF64}) {
    EXPECT_EQ(refusal([&](RunSpec& s) {
                s.train.fp8 = {.recipe = Fp8Recipe::kBlock};
                s.train.dtype = type;
              }),
              "");
  }
  for (const DType type : {DType::kBF16, DType::kF16}) {
    expect_refused(
        [&](RunSpec& s) {
          s.train.fp8 = {.recipe = Fp8Recipe::kRow};
          s.train.dtype = type;
        },
        "train.fp8_recipe = \"row\" is for dtype = \"fp8\"");
  }
}

TEST(Fp8Spec, RefusesOptionsThatSayNothing) {
  expect_refused([](RunSpec& s) { s.train.fp8 = {.bf16_first = 1}; },
                 "are for dtype = \"fp8\"; leave them out with dtype = \"bf16\"");
  expect_refused([](RunSpec& s) { s.train.fp8.bf16_first = s.train.fp8.bf16_last = 2; },
                 "leave none of 4 blocks in 8 bits");
  expect_refused([](RunSpec& s) { s.train.fp8.block = 64; },
                 "train.fp8_block = 64 is for fp8_recipe = \"block\"");
}

TEST(Fp8Spec, RefusesWhatItDoesNotGoWith) {
  expect_refused([](RunSpec& s) { s.train.device = TrainDevice::kCuda; },
                 "use device = \"cpu\", or dtype = \"bf16\"");
  expect_refused([](RunSpec& s) { s.train.loss_scale = 8; }, "is for dtype = \"f16\"");
  expect_refused(
      [](RunSpec& s) {
        s.model.family = ModelFamily::kMixtral;
        s.model.experts = 4;
      },
      "not there for the products of experts yet");
  expect_refused([](RunSpec& s) { s.parallel.tp = 8; }, "tp = 8 does not divide kv_heads = 4");
}

TEST(Fp8Spec, BlocksAreNotCutByRanks) {
  const auto with = [](int64_t tp, int64_t cp, int64_t block) {
    return [=](RunSpec& s) {
      s.parallel.tp = tp;
      s.parallel.cp = cp;
      s.train.fp8.recipe = Fp8Recipe::kBlock;
      s.train.fp8.block = block;
    };
  };
  EXPECT_EQ(refusal(with(1, 1, 100)), "");
  EXPECT_EQ(refusal(with(2, 2, 64)), "");
  expect_refused(with(2, 1, 128),
                 "kv_heads * head_dim = 128 over tp = 2 gives parts that blocks "
                 "of 128 do not divide");
  expect_refused(with(1, 2, 128), "seq_len = 256 over 2 * cp = 4");
}

TEST(Fp8Spec, IsReadAndWrittenAsOneWord) {
  RunSpec spec = parse_run_file(
      "[model]\nlayers=1\nhidden=8\nffn=8\nheads=1\nvocab=256\n"
      "[train]\nfp8_recipe=\"row\"\ndtype=\"fp8\"\n",
      "run.toml", {}, {});
  EXPECT_EQ(spec.train.dtype, DType::kBF16);
  EXPECT_TRUE(spec.train.fp8.asked);
  EXPECT_EQ(spec.train.fp8.recipe, Fp8Recipe::kRow);
}

}  // namespace
}  // namespace tessera
