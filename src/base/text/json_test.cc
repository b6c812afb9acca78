#include "base/text/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/testing/message_of.h"

namespace tessera {
namespace {

std::string failure(std::string_view text) {
  return testing::message_of([&] { parse_json(text, "config.json"); });
}

TEST(JsonTest, ReadsValues) {
  const nlohmann::json json = parse_json(R"({"a": [1, 2.5, "x]\"["], "b": null})", "f");
  EXPECT_EQ(json["a"][1], 2.5);
  EXPECT_TRUE(json["b"].is_null());
}

TEST(JsonTest, SyntaxErrorsNameFileLineColumnAndByte) {
  const std::string message = failure("{\n  \"a\": 1,\n  \"b\" 2\n}");
  EXPECT_TRUE(message.starts_with("config.json:3:7: ")) << message;
  EXPECT_NE(message.find("(byte 18)"), std::string::npos) << message;
  EXPECT_EQ(message.find("json.exception"), std::string::npos) << message;
  EXPECT_TRUE(failure("").starts_with("config.json:1:1: ")) << failure("");
  EXPECT_TRUE(failure("{} x").starts_with("config.json:1:4: ")) << failure("{} x");
}

TEST(JsonTest, RefusesBadBytesAndNumbers) {
  EXPECT_TRUE(failure("[\"\xff\"]").starts_with("config.json:1:")) << failure("[\"\xff\"]");
  EXPECT_NE(failure("[1e999]").find("1e999"), std::string::npos) << failure("[1e999]");
}

TEST(JsonTest, BoundsDepthAndSize) {
  const std::string deepest = std::string(64, '[') + std::string(64, ']');
  EXPECT_EQ(failure(deepest), "no error");
  EXPECT_EQ(failure("[" + deepest + "]"),
            "config.json:1:65: JSON is nested deeper than 64 (byte 64)");
  EXPECT_EQ(failure("\"" + std::string(1000, '[') + "\""), "no error");
  EXPECT_EQ(failure(std::string((16 << 20) + 1, ' ')),
            "config.json: 16777217 bytes of JSON, more than the limit of 16777216");
}

}  // namespace
}  // namespace tessera
