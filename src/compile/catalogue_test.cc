// The catalogue of models against the programs: closed forms count what layouts hold, and what has
// no program is refused.
#include <gtest/gtest.h>

#include "base/error.h"
#include "compile/model/model_flops.h"
#include "compile/model/parameters.h"
#include "compile/step.h"
#include "spec/catalogue/model_catalogue.h"
#include "spec/catalogue/model_size.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

RunSpec run_of(const std::string& name) {
  RunSpec spec;
  spec.model = find_model(name).model;
  resolve(spec);
  return spec;
}

TEST(CatalogueTest, ClosedFormsCountWhatLayoutsHold) {
  int compared = 0;
  for (const std::string_view name : model_names()) {
    const RunSpec spec = run_of(std::string(name));
    if (!untrainable_choice(spec.model).empty()) continue;
    const ParameterLayout layout = layout_parameters(spec, mesh_of(spec.parallel));
    EXPECT_EQ(model_size(spec.model).total, layout.num_parameters) << name;
    ++compared;
  }
  EXPECT_GE(compared, 30);
}

TEST(CatalogueTest, NoProgramIsBuiltForWhatCannotBeTrained) {
  for (const char* name : {"deepseek-v3", "palm-8b", "bloom-7b1", "opt-6.7b", "mpt-7b"}) {
    const RunSpec spec = run_of(name);
    EXPECT_THROW(build_step(spec, StepKind::kTraining), ConfigError) << name;
  }
}

// Every weight of a layer is in a product, but norms and biases; so is the head.
TEST(CatalogueTest, ProductsHaveTheWeightsThatATokenMeets) {
  for (const std::string_view name : model_names()) {
    const ModelSpec model = run_of(std::string(name)).model;
    const ModelSize size = model_size(model);
    const int64_t head = model.tied ? model.vocab * model.hidden : 0;
    const int64_t met = size.active - size.tables + head;
    const int64_t products = product_weights(model);
    EXPECT_LE(products, met) << name;
    EXPECT_GE(static_cast<double>(products), 0.99 * static_cast<double>(met)) << name;
  }
}

// 2 [q_r (h + a d_q) + kv_r (h + a (d_n + d_v)) + h d_r + a d_v h] of a token's forward pass
// (DeepSeek-V2, section 2.1), with the numbers of V3.
TEST(CatalogueTest, LatentAttentionCostsItsFormula) {
  RunSpec with = run_of("deepseek-v3");
  RunSpec without = with;
  without.model.layers -= 1;
  const int64_t attention =
      1536 * (7168 + 128 * 192) + 512 * (7168 + 128 * (128 + 128)) + 7168 * 64 + 128 * 128 * 7168;
  const int64_t experts = 7168 * 256 + 3 * 7168 * (8 * 2048 + 2048);
  EXPECT_EQ(product_weights(with.model) - product_weights(without.model), attention + experts);
  const double tokens = 256, keys = 128;
  EXPECT_EQ(model_flops(with).attention - model_flops(without).attention,
            6 * 128 * (192 + 128) * tokens * keys);
}

}  // namespace
}  // namespace tessera
