#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "in_process.h"

namespace tessera {
namespace {

const std::string kExtract = TESSERA_SOURCE_DIR "/tests/data/published/extract.json";

TEST(BenchPublishedTest, PrintsAFamilyALine) {
  const Ended result = run_in_process({"bench", "published", kExtract});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("\nsc21-t1 "), std::string::npos);
  EXPECT_NE(result.out.find("skipped mcore-golden-gpt3_15b_8t_release-h100: "), std::string::npos);
  EXPECT_EQ(result.out.find("nan"), std::string::npos);
  EXPECT_EQ(result.out.find("inf\n"), std::string::npos);
}

TEST(BenchPublishedTest, JsonIsTheSameTwice) {
  const Ended first = run_in_process({"bench", "published", kExtract, "--json"});
  const Ended second = run_in_process({"bench", "published", kExtract, "--json"});
  EXPECT_EQ(first.out, second.out);
  const auto json = nlohmann::json::parse(first.out);
  EXPECT_EQ(json["families"][0]["family"], "sc21-t1");
  EXPECT_EQ(json["families"][0]["quantity"], "step time");
  EXPECT_EQ(json["families"][0]["n"], 3);
}

TEST(BenchPublishedTest, RefusesFilesThatAreNone) {
  EXPECT_EQ(run_in_process({"bench", "published", "/nowhere.json"}).code, 2);
  EXPECT_EQ(run_in_process({"bench", "published", TESSERA_SOURCE_DIR "/README.md"}).code, 2);
  EXPECT_EQ(run_in_process({"bench", "published"}).code, 2);
}

TEST(BenchPricingTest, CountsStrategies) {
  const Ended result = run_in_process({"bench", "pricing", "--model", "gpt2", "--cluster", "a100-8",
                                       "--seconds", "0.01", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_GT(nlohmann::json::parse(result.out)["priced"], 0);
  const Ended wrong = run_in_process({"bench", "pricing", "--cluster", "h10-8"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("did you mean"), std::string::npos) << wrong.err;
}

}  // namespace
}  // namespace tessera
