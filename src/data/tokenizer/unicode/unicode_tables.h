// Classes of characters as the reference library has them; tools/record_unicode.js asked it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tessera {

struct CharacterRange {
  uint32_t first = 0;
  uint32_t last = 0;
};

struct NamedRanges {
  std::string_view name;
  std::span<const CharacterRange> ranges;
};

// In ascending order, none touching the next.
std::span<const CharacterRange> numeric_ranges();         // of the pre-tokenizer Digits
std::span<const CharacterRange> word_ranges();            // \w beside an added token
std::span<const CharacterRange> not_normalized_ranges();  // newer than the normal forms
std::span<const CharacterRange> mark_ranges();            // of the normalizer StripAccents
std::span<const CharacterRange> punctuation_ranges();     // of the pre-tokenizer Punctuation
// For properties in patterns: categories ("Lu"), scripts ("Han"), and what a property has that its
// categories do not ("+Alpha"); character_property.h puts them together.
std::span<const NamedRanges> letter_categories();
std::span<const NamedRanges> other_categories();
std::span<const NamedRanges> scripts_and_more();

}  // namespace tessera
