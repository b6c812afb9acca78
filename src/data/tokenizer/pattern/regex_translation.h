// Regular expressions of tokenizer.json are Oniguruma's (Ruby's syntax); ours run on PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// Ranges ("\x{..}-\x{..}") that the classes of this PCRE2 are too old to know.
struct NewerCharacters {
  std::string letters;   // \p{L}
  std::string numbers;   // \p{N}
  std::string decimals;  // \p{Nd}
  std::string words;     // kWordClass
};

// What both have in common of Oniguruma's \w, as it stands in a class.
inline constexpr std::string_view kWordClass = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc})";
// What it is beside that where it stands alone, and for \b: a table of Latin-1 has them.
inline constexpr std::string_view kWordAlone = R"(\xB2\xB3\xB9\xBC-\xBE)";

// The same pattern for PCRE2 with UTF, UCP, MULTILINE and newline LF. Where both would differ it is
// spelled out: \s (PCRE2 counts U+180E), \w and \b (marks), \v, \u, {,n}. Throws ConfigError for
// syntax whose meaning differs and that has no such form, naming it.
std::string pcre2_pattern(std::string_view pattern, const NewerCharacters& newer);

}  // namespace tessera
