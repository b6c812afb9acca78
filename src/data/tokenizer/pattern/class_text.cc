#include "data/tokenizer/pattern/class_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "data/tokenizer/pattern/pcre2_code.h"
#include "data/tokenizer/unicode/character_property.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

// The inside of blocks that are alike in every version since Unicode 13, and are not asked for:
// ideographs, syllables, Tangut, private use, and planes without characters.
constexpr CharacterRange kAlike[] = {{0x3401, 0x4DB4},   {0x4E01, 0x9FA4},    {0xAC01, 0xD7A2},
                                     {0xD800, 0xDFFF},   {0xE001, 0xF8FE},    {0x17001, 0x187EB},
                                     {0x20001, 0x2A6D5}, {0x2A701, 0x2B733},  {0x2B741, 0x2B81C},
                                     {0x2B821, 0x2CEA0}, {0x30001, 0x31349},  {0x40001, 0xDFFFE},
                                     {0xF0001, 0xFFFFC}, {0x100001, 0x10FFFC}};

bool holds(const std::vector<CharacterRange>& ranges, uint32_t code) {
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), code,
      [](uint32_t wanted, const CharacterRange& range) { return wanted < range.first; });
  return after != ranges.begin() && code <= std::prev(after)->last;
}

// One range after the other, each a character at least.
class RangeList {
 public:
  void add(uint32_t first, uint32_t last) {
    text_ += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", first, last);
  }
  void add_next(uint32_t code) {
    if (open_ && code == last_ + 1) {
      last_ = code;
      return;
    }
    finish();
    first_ = last_ = code;
    open_ = true;
  }
  std::string finish() {
    if (open_) add(first_, last_);
    open_ = false;
    return text_;
  }

 private:
  std::string text_;
  uint32_t first_ = 0, last_ = 0;
  bool open_ = false;
};

std::vector<uint32_t> asked_characters() {
  std::vector<uint32_t> asked;
  uint32_t code = 0;
  for (const CharacterRange alike : kAlike) {
    for (; code < alike.first; ++code) asked.push_back(code);
    code = alike.last + 1;
  }
  for (; code < kCodePoints; ++code) asked.push_back(code);
  return asked;
}

std::string all_ranges(const CharacterProperty& property) {
  RangeList list;
  for (const CharacterRange range : property.ranges) list.add(range.first, range.last);
  return list.finish();
}

// The class of PCRE2 with what it lacks; all ranges where it holds a character too many.
std::string compared(const CharacterProperty& property) {
  const Pcre2Code code = compile_pattern(property.pcre2, "[" + property.pcre2 + "]+");
  const Pcre2MatchData data(pcre2_match_data_create_from_pattern(code.get(), nullptr));
  TESSERA_CHECK(data != nullptr, "no memory for a match");
  const std::vector<uint32_t> asked = asked_characters();
  std::string text;
  for (const uint32_t one : asked) append_utf8(one, text);
  size_t next = 0;  // of the asked
  size_t at = 0;    // its place in the text
  RangeList lacks;
  const auto pass = [&](size_t end, bool is_match) {
    for (; at < end; ++next) {
      const bool wanted = holds(property.ranges, asked[next]);
      if (is_match && !wanted) return false;
      if (!is_match && wanted) lacks.add_next(asked[next]);
      at += encoded_size(asked[next]);
    }
    return true;
  };
  while (pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                     PCRE2_NO_UTF_CHECK, data.get(), nullptr) > 0) {
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data.get());
    if (!pass(found[0], false) || !pass(found[1], true)) return all_ranges(property);
  }
  pass(text.size(), false);
  return property.pcre2 + lacks.finish();
}

std::string made(std::string_view name) {
  const std::optional<CharacterProperty> property = character_property(name);
  if (!property) return fmt::format("\\p{{{}}}", name);
  if (property->pcre2.empty()) return all_ranges(*property);
  try {
    return compared(*property);
  } catch (const ConfigError&) {
    return all_ranges(*property);  // this PCRE2 does not know it
  }
}

}  // namespace

std::string class_text(std::string_view property) {
  static std::mutex mutex;
  static std::map<std::string, std::string, std::less<>> known;
  const std::scoped_lock lock(mutex);
  const auto found = known.find(property);
  if (found != known.end()) return found->second;
  return known.emplace(property, made(property)).first->second;
}

}  // namespace tessera
