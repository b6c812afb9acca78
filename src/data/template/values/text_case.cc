// Letter case and what repr() shows, from tables that are made by tools/make_template_tables.py.
#include <algorithm>
#include <iterator>

#include "data/template/values/text_ops.h"
#include "data/template/values/unicode_tables.h"

namespace tessera::jinja {
namespace {

constexpr uint32_t kSigma = 0x3a3;
constexpr uint32_t kFinalSigma = 0x3c2;
constexpr uint32_t kNothing = 0xffffffff;  // before the first character

// The row of an ascending table of ranges that may hold `code`, or null.
template <typename Range, size_t kSize>
const Range* range_of(const Range (&table)[kSize], uint32_t code) {
  const Range* after =
      std::upper_bound(std::begin(table), std::end(table), code,
                       [](uint32_t at, const Range& row) { return at < row.first; });
  if (after == std::begin(table)) return nullptr;
  const Range* row = std::prev(after);
  return code <= row->last ? row : nullptr;
}

template <size_t kSize>
const char* special(const SpecialCase (&table)[kSize], uint32_t code) {
  const auto* found =
      std::lower_bound(std::begin(table), std::end(table), code,
                       [](const SpecialCase& row, uint32_t at) { return row.code < at; });
  return found != std::end(table) && found->code == code ? found->text : nullptr;
}

template <size_t kSize>
uint32_t mapped(const CaseRange (&table)[kSize], uint32_t code) {
  const CaseRange* row = range_of(table, code);
  if (row == nullptr || (code - row->first) % row->stride != 0) return code;
  return static_cast<uint32_t>(static_cast<int64_t>(code) + row->delta);
}

template <size_t kRanges, size_t kSpecials>
void append_mapped(std::string& text, const CaseRange (&ranges)[kRanges],
                   const SpecialCase (&specials)[kSpecials], uint32_t code) {
  if (const char* several = special(specials, code)) {
    text += several;
  } else {
    append_code(text, mapped(ranges, code));
  }
}

void append_title(std::string& text, uint32_t code) {
  if (const char* several = special(kTitleSpecial, code)) {
    text += several;
  } else {
    append_mapped(text, kUpper, kUpperSpecial, code);
  }
}

// A sigma at the end of a word has a form of its own.
void append_lower(std::string& text, uint32_t code, bool after_letter, std::string_view rest) {
  if (code == kSigma && after_letter && (rest.empty() || !is_cased(first_code(rest)))) {
    code = kFinalSigma;
  }
  append_mapped(text, kLower, kLowerSpecial, code);
}

// Letters for which `starts` holds in title case, the others in lower case.
template <typename Starts>
std::string title_where(std::string_view text, const Starts& starts) {
  std::string result;
  uint32_t before = kNothing;
  while (!text.empty()) {
    const uint32_t code = first_code(text);
    text.remove_prefix(character_bytes(text));
    if (starts(before)) {
      append_title(result, code);
    } else {
      append_lower(result, code, is_cased(before), text);
    }
    before = code;
  }
  return result;
}

template <size_t kSize>
bool changes(const CaseRange (&table)[kSize], uint32_t code) {
  return mapped(table, code) != code;
}

bool is_upper(uint32_t code) {
  return changes(kLower, code) || special(kLowerSpecial, code) != nullptr;
}

bool is_lower(uint32_t code) {
  return changes(kUpper, code) || special(kUpperSpecial, code) != nullptr;
}

}  // namespace

bool is_printable_in_python(uint32_t code) { return range_of(kUnprintable, code) == nullptr; }

bool is_cased(uint32_t code) { return is_upper(code) || is_lower(code); }

std::string upper(std::string_view text) {
  std::string result;
  for (; !text.empty(); text.remove_prefix(character_bytes(text))) {
    append_mapped(result, kUpper, kUpperSpecial, first_code(text));
  }
  return result;
}

std::string lower(std::string_view text) {
  return title_where(text, [](uint32_t /*before*/) { return false; });
}

std::string capitalize(std::string_view text) {
  return title_where(text, [](uint32_t before) { return before == kNothing; });
}

std::string title(std::string_view text) {
  return title_where(text, [](uint32_t before) { return !is_cased(before); });
}

std::string title_filter(std::string_view text) {
  const auto ends_word = [](uint32_t code) {
    return code == '-' || code == '(' || code == '{' || code == '[' || code == '<' ||
           is_space(code);
  };
  std::string result;
  while (!text.empty()) {
    const bool separates = ends_word(first_code(text));
    size_t end = 0;
    while (end < text.size() && ends_word(first_code(text.substr(end))) == separates) {
      end += character_bytes(text.substr(end));
    }
    const size_t first = character_bytes(text);
    result += upper(text.substr(0, first)) + lower(text.substr(first, end - first));
    text.remove_prefix(end);
  }
  return result;
}

bool is_all_upper(std::string_view text) {
  bool any = false;
  for (; !text.empty(); text.remove_prefix(character_bytes(text))) {
    if (is_lower(first_code(text))) return false;
    any = any || is_upper(first_code(text));
  }
  return any;
}

bool is_all_lower(std::string_view text) {
  bool any = false;
  for (; !text.empty(); text.remove_prefix(character_bytes(text))) {
    if (is_upper(first_code(text))) return false;
    any = any || is_lower(first_code(text));
  }
  return any;
}

}  // namespace tessera::jinja
