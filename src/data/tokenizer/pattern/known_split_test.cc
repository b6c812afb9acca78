#include "data/tokenizer/pattern/known_split.h"

#include <gtest/gtest.h>

#ifdef TESSERA_HAS_ONIGURUMA
// GoogleTest includes <regex.h>, which has types of the same names.
#define ONIG_ESCAPE_REGEX_T_COLLISION
#define re_registers oniguruma_registers
#include <oniguruma.h>
#undef re_registers
#endif

#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/testing/share.h"
#include "data/testing/odd_strings.h"
#include "data/tokenizer/pattern/regex.h"
#include "data/tokenizer/unicode/unicode.h"

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
  std::mt19937_64 random(11 + static_cast<uint64_t>(testing::rotation()));
  const int num_texts = testing::tries_all() ? 20'000 : 5'000;
  for (const KnownSplit split : kSplits) {
    const Regex regex{std::string(pattern_of(split))};
    std::vector<Part> parts;
    for (int i = 0; i < num_texts; ++i) {
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

std::vector<size_t> by_regex(const Regex& regex, const std::string& text) {
  std::vector<Part> parts;
  regex.find(text, parts);
  std::vector<size_t> ends;
  for (const Part& part : parts) {
    if (part.is_match) ends.push_back(part.end);
  }
  return ends;
}

// Characters that our tables have, and this Oniguruma's, which are of an older Unicode, do not.
class NewerCharacterFinder {
 public:
  [[nodiscard]] bool any_in(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const CodePoint point = code_point_at(text, at);
      if (point.code > 0x7F && is_newer(text.substr(at, point.bytes), point.code)) return true;
      at += point.bytes;
    }
    return false;
  }

 private:
  bool is_newer(const std::string& character, uint32_t code) {
    const auto [found, is_first] = seen_.emplace(code, false);
    if (is_first) {
      found->second = !not_known_.ends(character).empty() && by_regex(not_ours_, character).empty();
    }
    return found->second;
  }
  const Oniguruma not_known_{"\\p{Cn}"};
  const Regex not_ours_{"\\p{Cn}"};
  std::map<uint32_t, bool> seen_;
};

// Patterns of other models, which run on PCRE2: cl100k, o200k, DeepSeek's and BLOOM's.
constexpr std::string_view kOtherPatterns[] = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+)"
    R"(|\s+(?!\S)|\s+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"( ?[^(\s|[.,!?…。，、।۔،])]+)"};

// A tenth of them with each commit.
TEST(KnownSplitTest, IsThatOfOnigurumaFor100000Strings) {
  OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
  onig_initialize(encodings, 1);
  NewerCharacterFinder newer;
  const Oniguruma gpt2(pattern_of(KnownSplit::kGpt2));
  const Oniguruma llama3(pattern_of(KnownSplit::kLlama3));
  const Oniguruma qwen2(pattern_of(KnownSplit::kQwen2));
  const testing::OddStrings strings(TESSERA_SOURCE_DIR "/tests/data/tokenizers");
  const testing::Share share = testing::share_of(100'000, 10);
  int64_t num_compared = 0;
  for (int64_t i = share.begin; i < share.end; ++i) {
    std::string text;
    append_lossy(strings.make(static_cast<uint32_t>(i)), text);
    if (newer.any_in(text)) continue;
    ++num_compared;
    ASSERT_EQ(by_table(KnownSplit::kGpt2, text), gpt2.ends(text)) << i << " '" << text << "'";
    ASSERT_EQ(by_table(KnownSplit::kLlama3, text), llama3.ends(text)) << i << " '" << text << "'";
    ASSERT_EQ(by_table(KnownSplit::kQwen2, text), qwen2.ends(text)) << i << " '" << text << "'";
  }
  EXPECT_GT(num_compared, share.size() / 2);
}

TEST(KnownSplitTest, PatternsOfOtherModelsAreThoseOfOniguruma) {
  OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
  onig_initialize(encodings, 1);
  NewerCharacterFinder newer;
  const testing::OddStrings strings(TESSERA_SOURCE_DIR "/tests/data/tokenizers");
  const testing::Share share = testing::share_of(100'000, 50);
  for (const std::string_view pattern : kOtherPatterns) {
    const Oniguruma reference(pattern);
    const Regex regex{std::string(pattern)};
    for (int64_t i = share.begin; i < share.end; ++i) {
      std::string text;
      append_lossy(strings.make(static_cast<uint32_t>(i)), text);
      if (newer.any_in(text)) continue;
      ASSERT_EQ(by_regex(regex, text), reference.ends(text)) << pattern << "\n'" << text << "'";
    }
  }
}

#endif

}  // namespace
}  // namespace tessera
