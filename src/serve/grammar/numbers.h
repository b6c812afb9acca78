// Numbers of JSON within bounds, exactly: automata over their digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "serve/grammar/automaton.h"

namespace tessera::serve::grammar {

// A decimal number as digits, without zeros that say nothing: 0 has none.
struct Decimal {
  bool negative = false;
  std::string whole;
  std::string fraction;
};
// A number as JSON writes it; nothing for one with more than 40 digits.
std::optional<Decimal> decimal_of(std::string_view json);
int compare_decimals(const Decimal& a, const Decimal& b);  // -1, 0 or 1

struct Bound {
  Decimal value;
  bool inclusive = true;
};
struct NumberRange {
  std::optional<Bound> low, high;
};

inline constexpr int kMostDigits = 15;  // of a number: what a double keeps

// Whole numbers within both bounds and int64. Written without fraction and exponent.
Dfa integers(const NumberRange& range, Budget& budget);
// With kMostDigits digits at most. An exponent, of two digits, only where there are no bounds.
Dfa numbers(const NumberRange& range, Budget& budget);

}  // namespace tessera::serve::grammar
