// Which characters patterns match, beside the reference library's answers
// (tools/record_classes.js).
#include "data/tokenizer/pattern/regex.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/testing/share.h"
#include "data/testing/recorded_hash.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

using nlohmann::json;

std::vector<int32_t> matched_by(const std::string& pattern, uint32_t limit, uint32_t step) {
  const Regex regex{pattern};
  const std::string before = pattern.starts_with("(?<=") ? pattern.substr(4, 1) : "";
  std::vector<int32_t> found;
  std::vector<Part> parts;
  for (uint32_t code = 0; code < kCodePoints; code += code < limit ? 1 : step) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text = before;
    append_utf8(code, text);
    regex.find(text, parts);
    if (std::any_of(parts.begin(), parts.end(), [](const Part& part) { return part.is_match; })) {
      found.push_back(static_cast<int32_t>(code));
    }
  }
  return found;
}

TEST(RegexTest, CharactersOfEveryClassAreThoseOfTheLibrary) {
  std::ifstream file(TESSERA_SOURCE_DIR "/tests/data/tokenizers/classes.json");
  const json recorded = json::parse(file);
  ASSERT_GE(recorded["patterns"].size(), 160U);
  const std::vector<json> all = recorded["patterns"];
  for (const json& one : testing::share_of(all, 8)) {
    const std::vector<int32_t> found =
        matched_by(one["pattern"], recorded["limit"], recorded["step"]);
    testing::RecordedHash hash;
    hash.add(found);
    EXPECT_EQ(found.size(), one["count"].get<size_t>()) << one["pattern"];
    EXPECT_EQ(hash.text(), one["hash"].get<std::string>()) << one["pattern"];
  }
}

}  // namespace
}  // namespace tessera
