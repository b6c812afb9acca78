#include "base/text/base64.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera {
namespace {

std::string encoded(std::string_view bytes) {
  return base64({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

// Section 10 of RFC 4648.
TEST(Base64Test, GivesTheTextsOfTheStandard) {
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foobar"), "Zm9vYmFy");
  EXPECT_EQ(bytes_of_base64("Zm9vYg=="), "foob");
}

TEST(Base64Test, WhatIsWrittenIsRead) {
  std::mt19937 random(3);
  for (size_t size = 0; size < 100; ++size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_EQ(bytes_of_base64(encoded(bytes)), bytes);
  }
}

TEST(Base64Test, RefusesEveryOtherText) {
  for (const std::string_view text :
       {"Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Z===", "====", "=", "Zg==Zg==", "Zm 8", "Zm9v\n",
        "Zm-_", "Zm9\x80", "Z=9v", "Zm=v"}) {
    EXPECT_FALSE(bytes_of_base64(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace tessera
