// Sets of characters, and how JSON strings write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serve/grammar/automaton.h"

namespace tessera::serve::grammar {

struct CodeRange {
  uint32_t lo = 0, hi = 0;  // both in it
};
// Ascending, apart from each other.
using CodeSet = std::vector<CodeRange>;

inline constexpr uint32_t kLastCode = 0x10FFFF;

CodeSet normal_form(CodeSet set);
CodeSet inverse_of(const CodeSet& set);  // both are in normal form
inline CodeSet any_code() { return {{0, kLastCode}}; }

// One character of the set, as canonical JSON has it between quotes: as UTF-8, where it need not be
// escaped, else the short escape, else \u00xx in small letters. So a string has one spelling.
void add_character(Nfa& nfa, uint32_t from, const CodeSet& set, uint32_t to);

// The same for a text that is known; without the quotes.
std::string canonical_spelling(std::string_view utf8);

}  // namespace tessera::serve::grammar
