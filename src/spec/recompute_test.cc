#include "spec/recompute.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

std::string failure(const std::string& text, int64_t layers) {
  try {
    parse_recompute(text, layers);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Recompute, ReadsEveryChoice) {
  EXPECT_EQ(parse_recompute("none", 4).blocks, 0);
  EXPECT_FALSE(parse_recompute("none", 4).norms);
  EXPECT_TRUE(parse_recompute("norms", 4).norms);
  EXPECT_FALSE(parse_recompute("norms", 4).activations);
  EXPECT_TRUE(parse_recompute("light", 4).activations);
  EXPECT_FALSE(parse_recompute("light", 4).attention);
  EXPECT_TRUE(parse_recompute("selective", 4).norms);
  EXPECT_TRUE(parse_recompute("selective", 4).attention);
  EXPECT_EQ(parse_recompute("selective", 4).blocks, 0);
  EXPECT_EQ(parse_recompute("full", 4).blocks, 1);
  EXPECT_EQ(parse_recompute("every-1", 4).blocks, 1);
  EXPECT_EQ(parse_recompute("every-4", 4).blocks, 4);
}

TEST(Recompute, RefusesOthersWithTheNearestChoice) {
  for (const char* text : {"", "some", "every", "every-", "every-two", "every-2x", "every- 2"}) {
    EXPECT_EQ(failure(text, 16), "parallel.recompute = \"" + std::string(text) +
                                     "\": use none, norms, light, selective, full or every-K, such "
                                     "as every-4 (about the square "
                                     "root of 16 layers)");
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

}  // namespace
}  // namespace tessera
