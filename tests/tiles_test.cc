// A whole step in bf16 with its products on tiles.
#include <gtest/gtest.h>

#include <optional>

#include "kernels/cpu/gemm.h"
#include "kernels/testing/tiles_here.h"
#include "support/bf16_bound.h"

namespace tessera {
namespace {

using kernels::testing::TileEmulator;
using kernels::testing::TilesHere;
using testing::bf16_weights;
using testing::bound_spec;
using testing::bound_use;
using testing::BoundUse;
using testing::first_step;
using testing::in_bf16;

RunSpec with_threads(RunSpec spec, int threads) {
  spec.train.threads = threads;
  return spec;
}

TEST(TilesTraining, AStepIsWithinItsBoundAndTheSameFromAnyTeam) {
  if (!TilesHere::possible()) GTEST_SKIP() << "this CPU has no AVX512_BF16";
  RunSpec spec = bound_spec("llama-gqa");
  spec.train.micro_batch = spec.train.global_batch = 2;
  const TensorSource weights = bf16_weights(spec.model, 1);
  const StepRecord exact = first_step(spec, weights);
  const StepRecord without = first_step(in_bf16(spec), weights);

  const TilesHere tiles;
  if (kernels::cpu::tile_products() == nullptr) GTEST_SKIP() << "products are those of a library";
  const StepRecord one = first_step(with_threads(in_bf16(spec), 1), weights);
  const StepRecord two = first_step(with_threads(in_bf16(spec), 2), weights);
  const BoundUse use = bound_use(one, exact, spec.model.layers);
  EXPECT_LE(use.part, 1) << use.tensor;
  for (const Difference& d : differences(one.gradients, two.gradients)) {
    EXPECT_EQ(d.relative, 0) << d.name;
  }
  EXPECT_EQ(one.loss, two.loss);
  if (TilesHere::native()) return;
  // Otherwise the step would have gone another way.
  EXPECT_GT(TileEmulator::counts().multiplied, 1000);
  EXPECT_EQ(TileEmulator::counts().configured, TileEmulator::counts().released);
  double most = 0;
  for (const Difference& d : differences(one.gradients, without.gradients)) {
    most = std::max(most, d.relative);
  }
  EXPECT_GT(most, 0);
}

}  // namespace
}  // namespace tessera
