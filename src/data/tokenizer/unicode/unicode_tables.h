// Classes of characters as the reference library has them; tools/record_unicode.js asked it.
#pragma once

#include <cstdint>
#include <span>

namespace tessera {

struct CharacterRange {
  uint32_t first = 0;
  uint32_t last = 0;
};

// In ascending order, none touching the next.
std::span<const CharacterRange> letter_ranges();          // \p{L}
std::span<const CharacterRange> number_ranges();          // \p{N}
std::span<const CharacterRange> decimal_ranges();         // \d
std::span<const CharacterRange> numeric_ranges();         // of the pre-tokenizer Digits
std::span<const CharacterRange> word_ranges();            // \w beside an added token
std::span<const CharacterRange> not_normalized_ranges();  // newer than the normal forms
std::span<const CharacterRange> mark_ranges();            // of the normalizer StripAccents
std::span<const CharacterRange> punctuation_ranges();     // of the pre-tokenizer Punctuation

}  // namespace tessera
