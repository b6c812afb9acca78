// Numbers with a fraction, read alike on every platform: some have no std::from_chars for them, and
// strtod takes more than is meant here.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace tessera {

struct ParsedReal {
  double value = 0;
  size_t length = 0;  // characters of the text that it takes
};

enum class RealForm : unsigned char { kGeneral, kFixed };  // fixed: without an exponent

// The longest number that `text` begins with: "-2.5e3", ".5", "1.", "inf", "nan". No space, no "+"
// before it, no "0x". The nearest double; nothing for what is no number, or lies outside the range
// of one.
std::optional<ParsedReal> parse_real(std::string_view text, RealForm form = RealForm::kGeneral);

// All of `text`.
std::optional<double> whole_real(std::string_view text, RealForm form = RealForm::kGeneral);

}  // namespace tessera
