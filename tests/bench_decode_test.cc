// `tessera bench decode` with ranks that are processes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/command.h"

namespace tessera {
namespace {

constexpr const char* kTiny =
    " --batch 1,3 --context 24 --prompt 24 --rounds 1 --seconds 0 --dtype f32 --threads 1 --json";

void expect_measured(const testing::CommandResult& result, int tp, int pp) {
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json json = result.json();
  EXPECT_TRUE(json.at("processes").get<bool>());
  EXPECT_EQ(json.at("tp"), tp);
  EXPECT_EQ(json.at("pp"), pp);
  EXPECT_EQ(json.at("threads"), tp * pp);
  ASSERT_EQ(json.at("decode").size(), 2U);
  for (const auto& one : json.at("decode")) EXPECT_GT(one.at("tokens_per_s").get<double>(), 0);
  EXPECT_GT(json.at("prefill").at("tokens_per_s").get<double>(), 0);
}

TEST(BenchDecodeProcesses, MeasuresAModelThatNobodyTrained) {
  const testing::TestFolder folder;
  const std::string shape = "--shape layers=2,hidden=32,ffn=48,heads=4,vocab=100";
  for (const auto& [tp, pp] : {std::pair{2, 1}, {1, 2}}) {
    expect_measured(testing::tessera(folder, fmt::format("bench decode {} --mesh tp={},pp={} "
                                                         "--processes{}",
                                                         shape, tp, pp, kTiny)),
                    tp, pp);
  }
}

TEST(BenchDecodeProcesses, MeasuresAFolder) {
  const testing::TestFolder folder;
  const std::string model = std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf/llama-gqa";
  expect_measured(testing::tessera(folder, fmt::format("bench decode {} --mesh tp=2 --processes{}",
                                                       model, kTiny)),
                  2, 1);
}

}  // namespace
}  // namespace tessera
