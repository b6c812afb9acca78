#include "spec/recompute.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/message_of.h"

namespace tessera {
namespace {

std::string failure(const std::string& text, int64_t layers) {
  return testing::message_of([&] { parse_recompute(text, layers); });
}

RecomputeChoice only(const std::string& text) {
  const std::vector<RecomputePart> parts = parse_recompute(text, 4);
  EXPECT_EQ(parts.size(), 1U);
  return parts.back().choice;
}

TEST(Recompute, ReadsEveryChoice) {
  EXPECT_EQ(only("none").blocks, 0);
  EXPECT_FALSE(only("none").norms);
  EXPECT_TRUE(only("norms").norms);
  EXPECT_FALSE(only("norms").activations);
  EXPECT_TRUE(only("light").activations);
  EXPECT_FALSE(only("light").attention);
  EXPECT_TRUE(only("selective").norms);
  EXPECT_TRUE(only("selective").attention);
  EXPECT_EQ(only("selective").blocks, 0);
  EXPECT_EQ(only("full").blocks, 1);
  EXPECT_EQ(only("every-1").blocks, 1);
  EXPECT_EQ(only("every-4").blocks, 4);
}

TEST(Recompute, RefusesOthersWithTheNearestChoice) {
  for (const char* text : {"", "some", "every", "every-", "every-two", "every-2x", "every- 2"}) {
    EXPECT_EQ(failure(text, 16), "parallel.recompute = \"" + std::string(text) +
                                     "\": use none, norms, light, selective, full or every-K, such "
                                     "as every-4 (about the square "
                                     "root of 16 layers), or several, such as light:8+norms");
  }
  EXPECT_EQ(failure("every-5", 4),
            "parallel.recompute = \"every-5\": K must be from 1 to layers = 4; use every-4");
  EXPECT_EQ(failure("every-0", 4),
            "parallel.recompute = \"every-0\": K must be from 1 to layers = 4; use every-1");
  EXPECT_EQ(failure("every--3", 4),
            "parallel.recompute = \"every--3\": K must be from 1 to layers = 4; use every-1");
  EXPECT_EQ(failure("every-99999999999999999999", 4),
            "parallel.recompute = \"every-99999999999999999999\": K must be from 1 to layers = 4; "
            "use every-4");
}

TEST(Recompute, ReadsSeveralChoices) {
  const std::vector<RecomputePart> parts = parse_recompute("full:2+light:3+none", 16);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].choice.blocks, 1);
  EXPECT_TRUE(parts[1].choice.activations);
  EXPECT_FALSE(parts[2].choice.norms);
  std::vector<size_t> of_blocks;
  for (int64_t block = 0; block < 8; ++block) of_blocks.push_back(part_of_block(parts, block));
  EXPECT_EQ(of_blocks, (std::vector<size_t>{0, 0, 1, 1, 1, 2, 2, 2}));
}

TEST(Recompute, StagesMayDiffer) {
  const auto stages = parse_stages_recompute("full:2+none/light/none", 16, 4);
  ASSERT_EQ(stages.size(), 3U);
  EXPECT_EQ(stages[0].size(), 2U);
  EXPECT_TRUE(stages[1].back().choice.activations);
  EXPECT_EQ(recompute_of_stage("full:2+none/light/none", 0), "full:2+none");
  EXPECT_EQ(recompute_of_stage("full:2+none/light/none", 1), "light");
  EXPECT_EQ(recompute_of_stage("full:2+none/light/none", 3), "none");  // the last goes on
  EXPECT_EQ(recompute_of_stage("full", 7), "full");
}

TEST(Recompute, RefusesMoreChoicesThanStages) {
  EXPECT_THROW(parse_stages_recompute("full/none/none", 16, 2), ConfigError);
  EXPECT_THROW(parse_stages_recompute("full/none", 16, 1), ConfigError);
  EXPECT_THROW(parse_stages_recompute("full//none", 16, 4), ConfigError);
  EXPECT_THROW(parse_stages_recompute("full/some", 16, 4), ConfigError);
}

TEST(Recompute, RefusesPartsWithoutANumberOfBlocks) {
  for (const char* part : {"light", "light:", "light:0", "light:17", "light:two", "light:2x"}) {
    EXPECT_EQ(failure(std::string(part) + "+norms", 16),
              "parallel.recompute = \"" + std::string(part) + "+norms\": \"" + part +
                  "\" is not the last part, so it needs a number of blocks from 1 to layers = 16, "
                  "such as light:1+norms");
  }
  EXPECT_NE(failure("light:2+", 16), "no error");
  EXPECT_NE(failure("light:2", 16), "no error");
}

}  // namespace
}  // namespace tessera
