#include "data/tokenizer/unicode/character_property.h"

#include <algorithm>
#include <cctype>
#include <span>

#include "base/text/text.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

struct PropertyRow {
  std::string_view names;  // without case, blanks, '-' and '_'
  std::string_view pcre2;  // of which PCRE2 has about the same in a class
  std::string_view parts;  // recorded ones; "!": all characters that are in no category
};

constexpr PropertyRow kRows[] = {
    {"l letter", R"(\p{L})", "Lu Ll Lt Lm Lo"},
    {"lc casedletter", R"(\p{L&})", "Lu Ll Lt"},
    {"m mark combiningmark", R"(\p{M})", "Mn Mc Me"},
    {"n number", R"(\p{N})", "Nd Nl No"},
    {"p punctuation punct", R"(\p{P})", "Pc Pd Ps Pe Pi Pf Po"},
    {"s symbol", R"(\p{S})", "Sm Sc Sk So"},
    {"z separator", R"(\p{Z})", "Zs Zl Zp"},
    {"c other", R"(\p{C})", "Cc Cf Co !"},
    {"cn unassigned", R"(\p{Cn})", "!"},
    {"lu uppercaseletter", R"(\p{Lu})", "Lu"},
    {"ll lowercaseletter", R"(\p{Ll})", "Ll"},
    {"lt titlecaseletter", R"(\p{Lt})", "Lt"},
    {"lm modifierletter", R"(\p{Lm})", "Lm"},
    {"lo otherletter", R"(\p{Lo})", "Lo"},
    {"mn nonspacingmark", R"(\p{Mn})", "Mn"},
    {"mc spacingmark", R"(\p{Mc})", "Mc"},
    {"me enclosingmark", R"(\p{Me})", "Me"},
    {"nd decimalnumber digit", R"(\p{Nd})", "Nd"},
    {"nl letternumber", R"(\p{Nl})", "Nl"},
    {"no othernumber", R"(\p{No})", "No"},
    {"pc connectorpunctuation", R"(\p{Pc})", "Pc"},
    {"pd dashpunctuation", R"(\p{Pd})", "Pd"},
    {"ps openpunctuation", R"(\p{Ps})", "Ps"},
    {"pe closepunctuation", R"(\p{Pe})", "Pe"},
    {"pi initialpunctuation", R"(\p{Pi})", "Pi"},
    {"pf finalpunctuation", R"(\p{Pf})", "Pf"},
    {"po otherpunctuation", R"(\p{Po})", "Po"},
    {"sm mathsymbol", R"(\p{Sm})", "Sm"},
    {"sc currencysymbol", R"(\p{Sc})", "Sc"},
    {"sk modifiersymbol", R"(\p{Sk})", "Sk"},
    {"so othersymbol", R"(\p{So})", "So"},
    {"zs spaceseparator", R"(\p{Zs})", "Zs"},
    {"zl lineseparator", R"(\p{Zl})", "Zl"},
    {"zp paragraphseparator", R"(\p{Zp})", "Zp"},
    {"cc control cntrl", R"(\p{Cc})", "Cc"},
    {"cf format", R"(\p{Cf})", "Cf"},
    {"co privateuse", R"(\p{Co})", "Co"},
    {"alpha alphabetic", R"(\p{Alphabetic})", "Lu Ll Lt Lm Lo Nl +Alpha"},
    {"upper uppercase", R"(\p{Uppercase})", "Lu +Upper"},
    {"lower lowercase", R"(\p{Lowercase})", "Ll +Lower"},
    {"alnum", "", "Lu Ll Lt Lm Lo Nl +Alpha Nd"},
    {"space whitespace", "", "+Space"},
    {"blank", "", "+Blank"},
    {"xdigit", "", "+XDigit"},
    {"ascii", "", "+ASCII"},
    {"word", R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc})", "Lu Ll Lt Lm Lo Nl +Alpha Mn Mc Me Nd Pc"},
};

std::string folded(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

std::span<const CharacterRange> recorded(std::string_view name) {
  for (const auto list : {letter_categories(), other_categories(), scripts_and_more()}) {
    for (const NamedRanges& one : list) {
      if (one.name == name) return one.ranges;
    }
  }
  return {};
}

void sort_and_join(std::vector<CharacterRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](CharacterRange a, CharacterRange b) { return a.first < b.first; });
  size_t out = 0;
  for (const CharacterRange range : ranges) {
    if (out > 0 && range.first <= ranges[out - 1].last + 1) {
      ranges[out - 1].last = std::max(ranges[out - 1].last, range.last);
    } else {
      ranges[out++] = range;
    }
  }
  ranges.resize(out);
}

// Surrogates are no characters.
std::vector<CharacterRange> in_no_category() {
  std::vector<CharacterRange> all = {{0xD800, 0xDFFF}};
  for (const auto list : {letter_categories(), other_categories()}) {
    for (const NamedRanges& one : list) all.insert(all.end(), one.ranges.begin(), one.ranges.end());
  }
  sort_and_join(all);
  std::vector<CharacterRange> others;
  uint32_t next = 0;
  for (const CharacterRange range : all) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next < kCodePoints) others.push_back({next, kCodePoints - 1});
  return others;
}

std::vector<CharacterRange> together(std::string_view parts) {
  std::vector<CharacterRange> ranges;
  for (const std::string_view part : split(parts, ' ')) {
    const std::vector<CharacterRange> others =
        part == "!" ? in_no_category() : std::vector<CharacterRange>();
    const std::span<const CharacterRange> some = part == "!" ? others : recorded(part);
    ranges.insert(ranges.end(), some.begin(), some.end());
  }
  sort_and_join(ranges);
  return ranges;
}

}  // namespace

std::optional<CharacterProperty> character_property(std::string_view name) {
  const std::string wanted = folded(name);
  for (const PropertyRow& row : kRows) {
    for (const std::string_view one : split(row.names, ' ')) {
      if (one == wanted) return CharacterProperty{together(row.parts), std::string(row.pcre2)};
    }
  }
  for (const NamedRanges& one : scripts_and_more()) {
    if (one.name.front() != '+' && folded(one.name) == wanted) {
      // Without "sc:" it would be every character that the script uses.
      return CharacterProperty{{one.ranges.begin(), one.ranges.end()},
                               "\\p{sc:" + std::string(one.name) + "}"};
    }
  }
  return std::nullopt;
}

}  // namespace tessera
