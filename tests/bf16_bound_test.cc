// Gradients in bf16 on the CPU are within their bound, and the bound finds faults. cuda_test.cc has
// the same for a GPU.
#include "support/bf16_bound.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/testing/share.h"

namespace tessera {
namespace {

using testing::bf16_weights;
using testing::bound_spec;
using testing::bound_use;
using testing::BoundUse;
using testing::first_step;
using testing::in_bf16;
using testing::kHfModels;

// Tiles that are emulated take half a minute for all: a quarter of the families for each commit.
std::vector<std::string> families() {
  const std::vector<std::string> all(std::begin(kHfModels), std::end(kHfModels));
  return std::getenv("TESSERA_EMULATE_TILES") == nullptr ? all : testing::share_of(all, 4);
}

TEST(Bf16BoundTest, HoldsForEveryFamily) {
  for (const std::string& model : families()) {
    for (const uint64_t seed : testing::kBoundSeeds) {
      SCOPED_TRACE(fmt::format("{}, seed {}", model, seed));
      const RunSpec spec = bound_spec(model);
      const TensorSource weights = bf16_weights(spec.model, seed);
      const BoundUse use = bound_use(first_step(in_bf16(spec), weights), first_step(spec, weights),
                                     spec.model.layers);
      EXPECT_LE(use.part, 1) << use.tensor;
      fmt::print("{}: {:.2f} of the bound in {}\n", model, use.part, use.tensor);
    }
  }
}

TEST(Bf16BoundTest, FindsRolledAndScaledWeights) {
  const RunSpec spec = bound_spec("llama-gqa");
  testing::expect_faults_found(spec, in_bf16(spec));
}

}  // namespace
}  // namespace tessera
