#include "data/tokenizer/fingerprint.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using nlohmann::json;

TEST(FingerprintTest, DependsOnWhatDecidesAboutIdsAlone) {
  const json base = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"added_tokens", json::array()},
      {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}}}, {"merges", {"a b"}}}}};
  const std::string print = tokenizer_fingerprint(base);
  EXPECT_EQ(print.size(), 16U);
  json same = json::parse(base.dump(4));
  same["truncation"] = {{"max_length", 5}};
  same.erase("version");
  same["model"]["merges"] = json::array({json::array({"a", "b"})});
  EXPECT_EQ(tokenizer_fingerprint(same), print);
  json other = base;
  other["model"]["vocab"]["b"] = 2;
  EXPECT_NE(tokenizer_fingerprint(other), print);
  other = base;
  other["model"]["merges"] = {"b a"};
  EXPECT_NE(tokenizer_fingerprint(other), print);
  other = base;
  other["added_tokens"].push_back({{"id", 2}});
  EXPECT_NE(tokenizer_fingerprint(other), print);
}

}  // namespace
}  // namespace tessera
