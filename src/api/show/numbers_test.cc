#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/call.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

Json numbers_of(const nlohmann::json& request) { return call("numbers", request, {}); }

Json type_of(const Json& json, const std::string& name) {
  for (const Json& type : json.at("types")) {
    if (type.at("name") == name) return type;
  }
  return nullptr;
}

TEST(ShowNumbersTest, ATenthInEveryType) {
  const Json json = numbers_of({{"value", 0.1}});
  EXPECT_EQ(type_of(json, "bf16").at("stored"), 0.10009765625);
  EXPECT_EQ(type_of(json, "f16").at("stored"), 0.0999755859375);
  EXPECT_EQ(type_of(json, "fp8_e4m3").at("stored"), 0.1015625);
  EXPECT_EQ(type_of(json, "fp8_e5m2").at("stored"), 0.09375);
  const Json f32 = type_of(json, "f32");
  EXPECT_EQ(f32.at("hex"), "3dcccccd");
  EXPECT_EQ(f32.at("exponent"), "01111011");
  EXPECT_EQ(f32.at("mantissa"), "10011001100110011001101");
  EXPECT_EQ(type_of(json, "bf16").at("spacing_at_value"), 0x1p-11);
  EXPECT_LT(type_of(json, "bf16").at("next_below").get<double>(), 0.1);
}

TEST(ShowNumbersTest, WhatIsTooLargeHasNoValue) {
  const Json json = numbers_of({{"value", 1e6}});
  EXPECT_TRUE(type_of(json, "f16").at("stored").is_null());
  EXPECT_EQ(type_of(json, "f16").at("stored_text"), "infinity");
  EXPECT_EQ(type_of(json, "fp8_e4m3").at("stored_text"), "nan");
  EXPECT_EQ(type_of(json, "bf16").at("stored_text"), "999424");
}

// Half a spacing below 1 is 2^-9: smaller updates vanish in bf16 and add up in the master.
TEST(ShowNumbersTest, SmallUpdatesAreLostWithoutAMaster) {
  const Json updates = numbers_of({{"value", 1}, {"update", 1e-4}, {"steps", 1000}}).at("updates");
  EXPECT_EQ(updates.at("lost"), 1000);
  EXPECT_EQ(updates.at("bf16_weight"), 1.0);
  EXPECT_NEAR(updates.at("f32_weight").get<double>(), 1.1, 1e-4);
  EXPECT_NEAR(updates.at("master_weight").get<double>(), 1.1, 0x1p-8);
  EXPECT_EQ(updates.at("bf16").back()[0], 1000);
  EXPECT_LE(updates.at("bf16").size(), 502U);
  const Json large = numbers_of({{"value", 1}, {"update", 0.0625}, {"steps", 8}}).at("updates");
  EXPECT_EQ(large.at("lost"), 0);
  EXPECT_EQ(large.at("bf16_weight"), 1.5);
}

}  // namespace
}  // namespace tessera
