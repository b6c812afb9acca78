#include "cost/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/engine/engine_keys.h"

namespace tessera {
namespace {

template <typename F>
std::string failure_of(const F& f) {
  try {
    f();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(EngineTest, EveryConstantOfEveryEngineHasAProvenanceAndASentence) {
  ASSERT_GE(engine_names().size(), 3U);
  for (const std::string_view name : engine_names()) {
    const Engine engine = find_engine(std::string(name));
    ASSERT_EQ(engine.constants.size(), kEngineKeys.size()) << name;
    for (size_t i = 0; i < kEngineKeys.size(); ++i) {
      EXPECT_FALSE(engine.constants[i].source.empty()) << name << " " << kEngineKeys[i].name;
      EXPECT_EQ(engine.constants[i].value, engine.numbers.*kEngineKeys[i].field)
          << name << " " << kEngineKeys[i].name;
    }
  }
}

// A field that no key fills would be 0 in every price.
TEST(EngineTest, EveryNumberHasAKeyOfItsOwn) {
  EXPECT_EQ(sizeof(EngineNumbers), kEngineKeys.size() * sizeof(double));
  std::set<std::string_view> names;
  EngineNumbers numbers;
  for (const EngineKey& key : kEngineKeys) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_EQ(numbers.*key.field, 0) << key.name;
    numbers.*key.field = 1;
  }
}

TEST(EngineTest, WhatOursCouldNotMeasureIsMarkedAsBorrowed) {
  const Engine ours = find_engine(std::string(kOwnEngine));
  const Constant& slowdown = constant_of(ours, &EngineNumbers::overlap_slowdown);
  EXPECT_EQ(slowdown.provenance, Provenance::kBorrowed);
  EXPECT_TRUE(slowdown.source.starts_with("megatron, fitted: ")) << slowdown.source;
  EXPECT_EQ(constant_of(ours, &EngineNumbers::hidden_passes_forward).provenance,
            Provenance::kCounted);
  const Engine megatron = find_engine("megatron");
  EXPECT_TRUE(std::none_of(
      megatron.constants.begin(), megatron.constants.end(),
      [](const Constant& constant) { return constant.provenance == Provenance::kBorrowed; }));
}

TEST(EngineTest, AFileExtendsAnEngineOfTheCatalogue) {
  const Engine mine = parse_engine(
      "extends = \"megatron\"\nlast_bucket = [0.5, \"share\", \"measured\", \"here\"]\n",
      "mine.toml");
  EXPECT_EQ(mine.numbers.last_bucket, 0.5);
  EXPECT_EQ(mine.numbers.overlap_window, find_engine("megatron").numbers.overlap_window);
  EXPECT_EQ(mine.extends, "megatron");
  EXPECT_EQ(mine.name, "mine.toml");
}

TEST(EngineTest, RefusesMistakesWithTheirPlace) {
  const auto failure = [](const std::string& text) {
    return failure_of([&] { (void)parse_engine("extends = \"megatron\"\n" + text, "mine.toml"); });
  };
  EXPECT_NE(
      failure_of([] {
        (void)find_engine("megatrom");
      }).find("unknown engine \"megatrom\" (did you mean 'megatron'?); 'tessera presets engines'"),
      std::string::npos);
  EXPECT_NE(failure("last_buket = 1").find("mine.toml:2:1: unknown key \"last_buket\""),
            std::string::npos);
  EXPECT_NE(failure("last_bucket = 0.5").find("mine.toml:2:15: last_bucket must be [number"),
            std::string::npos);
  EXPECT_NE(failure("last_bucket = [0.5, \"bytes\", \"counted\", \"x\"]").find("is in \"share\""),
            std::string::npos);
  EXPECT_NE(failure("last_bucket = [0.5, \"share\", \"felt\", \"x\"]").find("is not a provenance"),
            std::string::npos);
  EXPECT_NE(failure("last_bucket = [1.5, \"share\", \"counted\", \"x\"]")
                .find("last_bucket must be from 0 to 1, got 1.5"),
            std::string::npos);
  EXPECT_NE(failure("kernels_wait_for_host = [0.5, \"0 or 1\", \"counted\", \"x\"]")
                .find("must be 0 or 1"),
            std::string::npos);
  EXPECT_NE(
      failure_of([] { (void)parse_engine("", "mine.toml"); }).find("half_tile_rate is missing"),
      std::string::npos);
  EXPECT_NE(failure_of([] { check(EngineNumbers()); }).find("half_tile_rate must be from"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
