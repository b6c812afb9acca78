// Schemas that are made to cost: each ends in a message that names its limit, after as much work
// and memory as the limit allows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "serve/grammar/grammar.h"
#include "serve/testing/own_process.h"
#include "serve/testing/schema_bombs.h"

namespace tessera::serve {
namespace {

using Json = nlohmann::ordered_json;
using tessera::testing::message_of;

TEST(GrammarLimitsTest, EveryBombEndsInAMessageThatNamesItsLimit) {
  for (const testing::SchemaBomb& bomb : testing::schema_bombs()) {
    SCOPED_TRACE(bomb.name);
    const int64_t rss = testing::rss_bytes();
    const auto begin = std::chrono::steady_clock::now();
    const std::string message = message_of<ConfigError>([&] { (void)compile_schema(bomb.schema); });
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_NE(message.find("schema"), std::string::npos) << message;
    EXPECT_NE(message.find(bomb.limit), std::string::npos) << message;
    EXPECT_LT(message.size(), 1000U) << "what a stranger wrote is not said back in full";
    EXPECT_LT(seconds, 30) << "counted steps bound it; a second on an idle core";
    if (!testing::has_sanitizer()) {
      EXPECT_LT(testing::rss_bytes() - rss, int64_t{512} << 20);
    }
    fmt::print("{}: refused after {:.2f} s\n", bomb.name, seconds);
  }
}

// The same ones within limits that they keep are schemas as any other.
TEST(GrammarLimitsTest, WhatStaysWithinThemIsCompiled) {
  // What is referred to again is compiled once, however often that doubles.
  EXPECT_NE(compile_schema(testing::doubling_references(40)), nullptr);
  EXPECT_NE(compile_schema(testing::nested_repetition(3, 4)), nullptr);
  EXPECT_NE(compile_schema(testing::nested_lists(20)), nullptr);
}

}  // namespace
}  // namespace tessera::serve
