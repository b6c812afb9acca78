#include "base/text/parse_real.h"

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace tessera {
namespace {

// What the standard library makes of the same text, where it has it.
std::optional<ParsedReal> reference(const std::string& text, RealForm form) {
  double value = 0;
  const auto [stop, error] = std::from_chars(
      text.data(), text.data() + text.size(), value,
      form == RealForm::kFixed ? std::chars_format::fixed : std::chars_format::general);
  if (error != std::errc()) return std::nullopt;
  return ParsedReal{value, static_cast<size_t>(stop - text.data())};
}

void expect_as_reference(const std::string& text) {
  for (const RealForm form : {RealForm::kGeneral, RealForm::kFixed}) {
    const std::optional<ParsedReal> mine = parse_real(text, form), theirs = reference(text, form);
    ASSERT_EQ(mine.has_value(), theirs.has_value()) << text;
    if (!mine.has_value()) continue;
    ASSERT_EQ(mine->length, theirs->length) << text;
    if (std::isnan(theirs->value)) {
      ASSERT_TRUE(std::isnan(mine->value)) << text;
    } else {
      ASSERT_EQ(std::bit_cast<uint64_t>(mine->value), std::bit_cast<uint64_t>(theirs->value))
          << text;
    }
  }
}

TEST(ParseRealTest, ReadsWhatTheStandardReads) {
  for (const std::string text : {"0",
                                 "-0",
                                 "1",
                                 "1.",
                                 ".5",
                                 "-.5",
                                 "1.5e3",
                                 "1.5E+3",
                                 "1e-3",
                                 "1e",
                                 "1e+",
                                 "1e+x",
                                 "1.e5",
                                 "15T",
                                 "3.7B",
                                 "0x10",
                                 "+1",
                                 " 1",
                                 "1 ",
                                 "",
                                 "-",
                                 ".",
                                 "-.",
                                 "e5",
                                 ".e5",
                                 "--1",
                                 "inf",
                                 "-inf",
                                 "INF",
                                 "infin",
                                 "infinity",
                                 "-Infinity!",
                                 "nan",
                                 "-nan",
                                 "NaN",
                                 "nanx",
                                 "i",
                                 "in",
                                 "1e308",
                                 "1.8e308",
                                 "1e309",
                                 "-1e400",
                                 "1e-307",
                                 "1e-323",
                                 "4.9e-324",
                                 "2.5e-324",
                                 "2.4e-324",
                                 "1e-400",
                                 "0e999",
                                 "0.0e-99",
                                 "1_000",
                                 "1,5",
                                 "00012.50",
                                 "1.2.3",
                                 "1e5e6",
                                 "9007199254740993",
                                 "0.1",
                                 "0.3",
                                 "2.2250738585072011e-308",
                                 "179769313486231580793e289",
                                 "123456789012345678901234567890",
                                 "0.000000000000000000000000000000000000001"}) {
    expect_as_reference(text);
  }
}

TEST(ParseRealTest, ReadsRandomTextsAsTheStandardDoes) {
  std::mt19937 random(7);
  const std::string letters = "00112345678999..eE+-- infan";
  for (int i = 0; i < 100'000; ++i) {
    std::string text;
    const size_t size = random() % 14;
    for (size_t c = 0; c < size; ++c) text += letters[random() % letters.size()];
    expect_as_reference(text);
  }
}

TEST(ParseRealTest, ReadsBackEveryDouble) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 100'000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    char text[64];
    const auto written = std::to_chars(text, text + sizeof(text), value);
    const std::optional<double> read =
        whole_real(std::string_view(text, static_cast<size_t>(written.ptr - text)));
    ASSERT_TRUE(read.has_value()) << text;
    ASSERT_EQ(std::bit_cast<uint64_t>(*read), std::bit_cast<uint64_t>(value));
  }
}

TEST(ParseRealTest, WholeRealTakesAllOfTheText) {
  EXPECT_EQ(whole_real("2.5"), 2.5);
  EXPECT_EQ(whole_real("2.5 "), std::nullopt);
  EXPECT_EQ(whole_real("2.5e1", RealForm::kFixed), std::nullopt);
  EXPECT_EQ(whole_real("1e999"), std::nullopt);
}

}  // namespace
}  // namespace tessera
