// Classes of characters in patterns ("[^\s\p{L}]", "\d"), from Oniguruma's syntax to PCRE2's.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

// Throws ConfigError: `what` at this byte of the pattern is not supported.
[[noreturn]] void refuse_in_pattern(std::string_view pattern, size_t at, std::string_view what);

// A set of characters with a name: "\s", "\D", "\p{Lu}".
struct NamedSet {
  std::string inside = {};  // of a class
  bool negated = false;
  size_t bytes = 0;  // of the pattern
};
// Nullopt: none begins at `at`. A few characters are of \w where it stands alone only.
std::optional<NamedSet> named_set(std::string_view pattern, size_t at, bool alone);

// The bytes of an escape ("\n", "\u00e9", "\]") and what it is for PCRE2.
struct EscapedCharacter {
  std::string text;
  size_t bytes = 0;
};
EscapedCharacter escaped_character(std::string_view pattern, size_t at);

struct TranslatedClass {
  std::string text = {};  // matches one character
  // Where it is nothing but characters that are listed: the list.
  std::optional<std::string> inside = {};
  size_t bytes = 0;
};
// The class whose '[' stands at `at`. Negated sets, classes in classes and '&&' become several
// classes, one of which matches, or looks ahead.
TranslatedClass translate_class(std::string_view pattern, size_t at);

}  // namespace tessera
