#include "base/text/printable.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(PrintableTest, OrdinaryTextStays) {
  for (const std::string text : {"", "plain\n\ttext", "größer → 10 µs · 模型 🙂"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(PrintableTest, WhatATerminalWouldObeyIsSpelledOut) {
  EXPECT_EQ(printable("\033[2J\a\r\x7f"), "\\u001b[2J\\u0007\\u000d\\u007f");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\u0000b");
  EXPECT_EQ(printable("\u009b31m"), "\\u009b31m");
  EXPECT_EQ(printable("\u202eabc\u2066\u2069\u200f"), "\\u202eabc\\u2066\\u2069\\u200f");
  EXPECT_EQ(printable("a\u2028b\ufeff"), "a\\u2028b\\ufeff");
}

TEST(PrintableTest, BytesThatAreNoUtf8AreSpelledOut) {
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable("\xff\xc0\xaf"), "\\xff\\xc0\\xaf");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(printable("\xe0\x80\x9b"), "\\xe0\\x80\\x9b") << "longer than needed";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "above the last code";
  EXPECT_EQ(printable("a\xc3"), "a\\xc3") << "cut off";
}

TEST(PrintableTest, ACharacterThatIsCutOffIsToldFromAWrongOne) {
  EXPECT_TRUE(first_character("\xc3").cut_off);
  EXPECT_TRUE(first_character("\xf0\x9f\x99").cut_off);
  EXPECT_FALSE(first_character("\xc3(").cut_off);
  EXPECT_FALSE(first_character("\xff").cut_off);
}

TEST(PrintableTest, LongTextIsCutAndCounted) {
  EXPECT_EQ(shortened("short"), "short");
  EXPECT_EQ(shortened("two\nlines"), "two\\nlines");
  EXPECT_EQ(shortened(std::string(5000, 'x')), std::string(200, 'x') + "… (5,000 characters)");
  EXPECT_EQ(shortened("\033\033\033", 1), "\\u001b… (3 characters)");
}

}  // namespace
}  // namespace tessera
