#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli.h"

namespace tessera {
namespace {

struct Result {
  int code;
  std::string out, err;
};

Result run(const std::vector<std::string>& args) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  const int code = run_cli(args, console);
  return {code, out.str(), err.str()};
}

const std::string kExtract = TESSERA_SOURCE_DIR "/tests/data/published/extract.json";

TEST(BenchPublishedTest, PrintsAFamilyALine) {
  const Result result = run({"bench", "published", kExtract});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("\nsc21-t1 "), std::string::npos);
  EXPECT_NE(result.out.find("skipped mcore-golden-gpt3_15b_8t_release-h100: "), std::string::npos);
  EXPECT_EQ(result.out.find("nan"), std::string::npos);
  EXPECT_EQ(result.out.find("inf\n"), std::string::npos);
}

TEST(BenchPublishedTest, JsonIsTheSameTwice) {
  const Result first = run({"bench", "published", kExtract, "--json"});
  const Result second = run({"bench", "published", kExtract, "--json"});
  EXPECT_EQ(first.out, second.out);
  const auto json = nlohmann::json::parse(first.out);
  EXPECT_EQ(json["families"][0]["family"], "sc21-t1");
  EXPECT_EQ(json["families"][0]["quantity"], "step time");
  EXPECT_EQ(json["families"][0]["n"], 3);
}

TEST(BenchPublishedTest, RefusesFilesThatAreNone) {
  EXPECT_EQ(run({"bench", "published", "/nowhere.json"}).code, 2);
  EXPECT_EQ(run({"bench", "published", TESSERA_SOURCE_DIR "/README.md"}).code, 2);
  EXPECT_EQ(run({"bench", "published"}).code, 2);
}

TEST(BenchPricingTest, CountsStrategies) {
  const Result result = run({"bench", "pricing", "--model", "gpt2", "--cluster", "a100-8",
                             "--seconds", "0.01", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_GT(nlohmann::json::parse(result.out)["priced"], 0);
  const Result wrong = run({"bench", "pricing", "--cluster", "h10-8"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("did you mean"), std::string::npos) << wrong.err;
}

}  // namespace
}  // namespace tessera
