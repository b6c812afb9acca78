#include "data/tokenizer/known_split.h"

#include <gtest/gtest.h>

#ifdef TESSERA_HAS_ONIGURUMA
// GoogleTest includes <regex.h>, which has types of the same names.
#define ONIG_ESCAPE_REGEX_T_COLLISION
#define re_registers oniguruma_registers
#include <oniguruma.h>
#undef re_registers
#endif

#include <random>
#include <string>
#include <vector>

#include "data/tokenizer/regex.h"
#include "data/tokenizer/unicode.h"

namespace tessera {
namespace {

constexpr KnownSplit kSplits[] = {KnownSplit::kGpt2, KnownSplit::kLlama3, KnownSplit::kQwen2};

std::vector<size_t> by_table(KnownSplit split, const std::string& text) {
  std::vector<size_t> ends;
  for (size_t at = 0; at < text.size(); at = ends.back()) {
    ends.push_back(end_of_piece(split, text, at, character_table()));
  }
  return ends;
}

// Rich in what the patterns look at: odd spaces, apostrophes, newlines, digits, letters of all
// kinds.
std::string odd_text(std::mt19937_64& random, uint32_t newest) {
  static const std::vector<std::string> parts = {" ",
                                                 "  ",
                                                 "\n",
                                                 "\r\n",
                                                 "\t",
                                                 "\xC2\xA0",
                                                 "\xE2\x80\x83",
                                                 "\xE1\xA0\x8E",
                                                 "\xC2\x85",
                                                 "\xE3\x80\x80",
                                                 "'",
                                                 "'s",
                                                 "'S",
                                                 "'\xC5\xBF",
                                                 "'T",
                                                 "'re",
                                                 "'VE",
                                                 "'lL",
                                                 "'d",
                                                 "ab",
                                                 "\xC3\xA9",
                                                 "\xE6\x97\xA5",
                                                 "1",
                                                 "12",
                                                 "1234",
                                                 "\xC2\xB2",
                                                 "-",
                                                 "==",
                                                 "_",
                                                 "\xF0\x9F\x99\x82",
                                                 "\xCC\x81",
                                                 "\n\n",
                                                 " \n "};
  std::string text;
  const auto count = random() % 14 + 1;
  for (uint64_t i = 0; i < count; ++i) {
    if (random() % 4 > 0) {
      text += parts[random() % parts.size()];
      continue;
    }
    uint32_t code = 0xD800;
    while (code >= 0xD800 && code <= 0xDFFF) {
      code = static_cast<uint32_t>(random() % (random() % 2 == 0 ? 0x3000 : newest));
    }
    append_utf8(code, text);
  }
  return text;
}

TEST(KnownSplitTest, IsThatOfTheRegularExpression) {
  std::mt19937_64 random(11);
  for (const KnownSplit split : kSplits) {
    const Regex regex{std::string(pattern_of(split))};
    std::vector<Part> parts;
    for (int i = 0; i < 20'000; ++i) {
      const std::string text = odd_text(random, kCodePoints);
      regex.find(text, parts);
      std::vector<size_t> ends;
      for (const Part& part : parts) ends.push_back(part.end);
      ASSERT_EQ(by_table(split, text), ends) << "'" << text << "'";
    }
  }
}

TEST(KnownSplitTest, KeepsWordsWithTheirBlank) {
  const std::string text = "don't  STOP 12345\n\n x";
  EXPECT_EQ(by_table(KnownSplit::kGpt2, text), (std::vector<size_t>{3, 5, 6, 11, 17, 19, 21}));
  EXPECT_EQ(by_table(KnownSplit::kLlama3, text),
            (std::vector<size_t>{3, 5, 6, 11, 12, 15, 17, 19, 21}));
  EXPECT_EQ(by_table(KnownSplit::kQwen2, text),
            (std::vector<size_t>{3, 5, 6, 11, 12, 13, 14, 15, 16, 17, 19, 21}));
}

TEST(KnownSplitTest, IsKnownByItsPatternAlone) {
  for (const KnownSplit split : kSplits) EXPECT_EQ(known_split(pattern_of(split)), split);
  EXPECT_FALSE(known_split("\\s+").has_value());
}

#ifdef TESSERA_HAS_ONIGURUMA

// The engine that the reference library uses. Debian's knows Unicode 14: a text with a letter or
// number since then is left out.
class Oniguruma {
 public:
  explicit Oniguruma(std::string_view pattern) {
    const auto* begin = reinterpret_cast<const OnigUChar*>(pattern.data());
    OnigErrorInfo error;
    EXPECT_EQ(onig_new(&regex_, begin, begin + pattern.size(), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                       ONIG_SYNTAX_RUBY, &error),
              ONIG_NORMAL);
  }
  ~Oniguruma() { onig_free(regex_); }
  Oniguruma(const Oniguruma&) = delete;
  Oniguruma& operator=(const Oniguruma&) = delete;

  [[nodiscard]] std::vector<size_t> ends(const std::string& text) const {
    const auto* begin = reinterpret_cast<const OnigUChar*>(text.data());
    const OnigUChar* end = begin + text.size();
    OnigRegion* region = onig_region_new();
    std::vector<size_t> found;
    size_t at = 0;
    while (at < text.size() &&
           onig_search(regex_, begin, end, begin + at, end, region, ONIG_OPTION_NONE) >= 0) {
      at = static_cast<size_t>(region->end[0]);
      found.push_back(at);
    }
    onig_region_free(region, 1);
    return found;
  }

 private:
  OnigRegex regex_ = nullptr;
};

TEST(KnownSplitTest, IsThatOfOniguruma) {
  OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
  onig_initialize(encodings, 1);
  const Oniguruma known("[\\p{L}\\p{N}]");
  std::mt19937_64 random(12);
  for (const KnownSplit split : kSplits) {
    const Oniguruma reference(pattern_of(split));
    int num_compared = 0;
    for (int i = 0; i < 34'000; ++i) {
      const std::string text = odd_text(random, 0x30000);
      bool is_newer = false;
      for (size_t at = 0; at < text.size();) {
        const CodePoint point = code_point_at(text, at);
        const bool ours = (character_table()[point.code] & (kLetterBit | kNumberBit)) != 0;
        if (ours && point.code > 0x7F && known.ends(text.substr(at, point.bytes)).empty()) {
          is_newer = true;
        }
        at += point.bytes;
      }
      if (is_newer) continue;
      ++num_compared;
      ASSERT_EQ(by_table(split, text), reference.ends(text)) << "'" << text << "'";
    }
    EXPECT_GT(num_compared, 20'000);
  }
}

#endif

}  // namespace
}  // namespace tessera
