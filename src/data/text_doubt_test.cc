#include "data/text_doubt.h"

#include <gtest/gtest.h>

#include <fstream>

namespace tessera {
namespace {

TEST(TextDoubtTest, TextIsNotDoubted) {
  EXPECT_EQ(text_doubt(""), "");
  EXPECT_EQ(text_doubt("Once upon a time,\r\n\tthere was \xc3\xa9t\xc3\xa9.\n"), "");
  EXPECT_EQ(text_doubt("\xef\xbb\xbfwith the mark of UTF-8"), "");
}

TEST(TextDoubtTest, Utf16AndNoiseAre) {
  using namespace std::string_view_literals;
  EXPECT_EQ(text_doubt("\xff\xfeO\0n\0"sv), "begins with the mark of UTF-16");
  EXPECT_NE(text_doubt("O\0n\0c\0e\0"sv).find("zero bytes"), std::string::npos);
  std::string noise;
  for (unsigned i = 0; i < 4096; ++i) noise += static_cast<char>((i * 2654435761U) >> 24);
  EXPECT_NE(text_doubt(noise), "");
}

TEST(TextDoubtTest, TheNoteNamesTheFile) {
  const std::string path = ::testing::TempDir() + "/tessera_utf16.txt";
  std::ofstream(path, std::ios::binary) << "\xff\xfeOnce";
  EXPECT_NE(data_note(path).find(path + "' begins with the mark of UTF-16"), std::string::npos);
  EXPECT_EQ(data_note(::testing::TempDir()), "");
  EXPECT_EQ(data_note(path + ".none"), "");
}

}  // namespace
}  // namespace tessera
