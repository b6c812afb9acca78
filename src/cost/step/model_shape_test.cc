#include "cost/step/model_shape.h"

#include <gtest/gtest.h>

#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

TEST(ModelShapeTest, ParametersOfPublishedModels) {
  EXPECT_EQ(shape_of(find_model("llama-2-7b").model, 4096).parameters(), 6738415616);
  EXPECT_EQ(shape_of(find_model("llama-3-8b").model, 8192).parameters(), 8030261248);
  EXPECT_EQ(shape_of(find_model("llama-3-405b").model, 8192).parameters(), 405853388800);
  EXPECT_EQ(shape_of(find_model("gpt2").model, 1024).parameters(), 124439808);
  EXPECT_EQ(shape_of(find_model("mixtral-8x7b").model, 4096).parameters(), 46702792704);
}

// DeepSeek-V3 (arXiv 2412.19437): 671 billion, 37 billion for a token.
TEST(ModelShapeTest, LatentAttentionAndSharedExperts) {
  ModelShape shape;
  shape.layers = 61;
  shape.hidden = 7168;
  shape.ffn = 18432;
  shape.heads = shape.kv_heads = 128;
  shape.vocab = 129280;
  shape.experts = 256;
  shape.experts_per_token = 8;
  shape.moe_ffn = shape.shared_ffn = 2048;
  shape.dense_layers = 3;
  shape.latent = true;
  shape.mla = {1536, 512, 128, 64, 128};
  EXPECT_NEAR(static_cast<double>(shape.parameters()), 671.0e9, 0.5e9);
  EXPECT_NEAR(static_cast<double>(shape.active_parameters()), 37.5e9, 1e9);
}

}  // namespace
}  // namespace tessera
