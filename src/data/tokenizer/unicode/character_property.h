// Which characters a property of a pattern holds ("L", "Lu", "Han", "Alpha"), as the reference
// library has it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/unicode/unicode_tables.h"

namespace tessera {

struct CharacterProperty {
  std::vector<CharacterRange> ranges;  // ascending
  // What has about the same characters in a class of PCRE2, whose Unicode may be older; empty:
  // nothing.
  std::string pcre2;
};

// Nullopt: none of that name. Case, blanks, '-' and '_' do not matter in it. "Word" is what \w is
// in a class.
std::optional<CharacterProperty> character_property(std::string_view name);

}  // namespace tessera
