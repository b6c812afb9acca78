#include "spec/catalogue/recipe_catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

std::string refusal(const std::string& text) {
  try {
    find_recipe("mine.toml", [&](const std::string&) { return text; });
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kHead = "title = \"t\"\nsource = \"s\"\ncluster = \"h100-8\"\n";

TEST(RecipeCatalogue, EveryRecipeSaysWhereItComesFrom) {
  for (const std::string_view name : recipe_names()) {
    const Recipe recipe = find_recipe(std::string(name));
    EXPECT_FALSE(recipe.source.empty()) << name;
    EXPECT_FALSE(recipe.settings.empty()) << name;
    EXPECT_EQ(recipe.published.empty(), recipe.published_source.empty()) << name;
  }
}

TEST(RecipeCatalogue, ReadsAUsersFile) {
  const std::string text = std::string(kHead) +
                           "[model]\npreset = \"gpt2\"\n[parallel]\nstage_layers = [6, 6]\n"
                           "sequence_parallel = true\n[published]\nsource = \"x\"\nmfu = 0.5\n";
  const Recipe recipe = find_recipe("mine.toml", [&](const std::string&) { return text; });
  const std::vector<std::string> expected = {"model.preset=gpt2", "parallel.stage_layers=[6,6]",
                                             "parallel.sequence_parallel=true"};
  std::vector<std::string> sorted = recipe.settings;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, (std::vector<std::string>{expected[0], expected[2], expected[1]}));
  EXPECT_EQ(recipe.published.mfu, 0.5);
}

TEST(RecipeCatalogue, RefusesMistakesWithTheirPlace) {
  const std::string head = kHead;
  EXPECT_NE(refusal("source = \"s\"\n").find("title is missing"), std::string::npos);
  EXPECT_NE(refusal(head + "clusters = \"a\"\n").find("mine.toml:4:1"), std::string::npos);
  EXPECT_NE(refusal(head + "[published]\nsource = \"x\"\nmfu = -1\n").find("above 0"),
            std::string::npos);
  EXPECT_NE(refusal(head + "[published]\nmfu = 0.4\n").find("published.source is missing"),
            std::string::npos);
  EXPECT_THROW(find_recipe("llama-3-405b-8"), ConfigError);
}

}  // namespace
}  // namespace tessera
