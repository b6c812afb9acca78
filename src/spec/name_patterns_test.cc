#include "spec/name_patterns.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

TEST(NamePatterns, AreSeparatedByCommas) {
  EXPECT_TRUE(name_patterns("k", "  ").empty());
  EXPECT_EQ(name_patterns("k", "*.bias, a.b"), (std::vector<std::string>{"*.bias", "a.b"}));
  EXPECT_THROW(name_patterns("k", "*.bias,,a"), ConfigError);
}

TEST(NamePatterns, AStarIsAnyText) {
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("*.bias", "h.*.attn.c_attn.bias"));
  EXPECT_TRUE(matches_pattern("*a*b*", "xxabyab"));
  EXPECT_TRUE(matches_pattern("model.layers.*.mlp.*", "model.layers.*.mlp.up_proj.weight"));
  EXPECT_FALSE(matches_pattern("*.bias", "h.*.attn.c_attn.bias2"));
  EXPECT_FALSE(matches_pattern("bias", "a.bias"));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_FALSE(matches_pattern("a*c", "ab"));
}

TEST(NamePatterns, BlocksHaveNoNumber) {
  EXPECT_EQ(without_block("model.layers.13.mlp.up_proj.weight"),
            "model.layers.*.mlp.up_proj.weight");
  EXPECT_EQ(without_block("model.layers.1.block_sparse_moe.experts.2.w1.weight"),
            "model.layers.*.block_sparse_moe.experts.2.w1.weight");
  EXPECT_EQ(without_block("lm_head.weight"), "lm_head.weight");
}

}  // namespace
}  // namespace tessera
