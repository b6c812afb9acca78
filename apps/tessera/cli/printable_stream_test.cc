#include "cli/printable_stream.h"

#include <gtest/gtest.h>

#include <array>
#include <sstream>
#include <vector>

namespace tessera {
namespace {

std::string passed(const std::vector<std::string>& pieces) {
  std::ostringstream to;
  {
    PrintableStream stream(to);
    for (const std::string& piece : pieces) stream << piece << std::flush;
    EXPECT_TRUE(stream.good());
  }
  return to.str();
}

TEST(PrintableStreamTest, PlainTextPasses) {
  EXPECT_EQ(passed({"step 1\n", "\t12.5 µs → ok", "\n"}), "step 1\n\t12.5 µs → ok\n");
}

TEST(PrintableStreamTest, NothingThatATerminalObeysPasses) {
  EXPECT_EQ(passed({"a\033]0;x\a\r\u009b\u202e\xff"}),
            "a\\u001b]0;x\\u0007\\u000d\\u009b\\u202e\\xff");
  EXPECT_EQ(passed({std::string("\0", 1)}), "\\u0000");
}

TEST(PrintableStreamTest, ACharacterMayComeInPieces) {
  EXPECT_EQ(passed({"\xe2", "\x86", "\x92|"}), "→|");
  EXPECT_EQ(passed({"\xe2\x80", "\xae"}), "\\u202e");
  EXPECT_EQ(passed({"\xe2", "\x1b"}), "\\xe2\\u001b");
  EXPECT_EQ(passed({"end \xe2\x86"}), "end \\xe2\\x86");
}

TEST(PrintableStreamTest, OwnSequencesPass) {
  constexpr std::array<std::string_view, 2> kOwn = {"\033[0m", "\r"};
  std::ostringstream to;
  PrintableStream stream(to, kOwn);
  stream << "\r1\033[0m\033[2J";
  EXPECT_EQ(to.str(), "\r1\033[0m\\u001b[2J");
}

TEST(PrintableStreamTest, AFullDiskIsNoticed) {
  class Full : public std::streambuf {
   protected:
    std::streamsize xsputn(const char*, std::streamsize) override { return 0; }
  } full;
  std::ostream broken(&full);
  PrintableStream stream(broken);
  stream << "text";
  EXPECT_FALSE(stream.good());
}

}  // namespace
}  // namespace tessera
