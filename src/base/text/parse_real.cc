#include "base/text/parse_real.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

namespace tessera {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t digits_at(std::string_view text, size_t at) {
  size_t count = 0;
  while (at + count < text.size() && is_digit(text[at + count])) ++count;
  return count;
}

// `word` is in lower case.
bool begins_with(std::string_view text, std::string_view word) {
  if (text.size() < word.size()) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    const char c = text[i];
    const bool upper = c >= 'A' && c <= 'Z';
    if ((upper ? static_cast<char>(c - 'A' + 'a') : c) != word[i]) return false;
  }
  return true;
}

// "inf", "infinity" or "nan", behind the sign.
std::optional<ParsedReal> parse_word(std::string_view text) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (begins_with(text, "infinity")) return ParsedReal{kInf, 8};
  if (begins_with(text, "inf")) return ParsedReal{kInf, 3};
  if (begins_with(text, "nan")) return ParsedReal{kNan, 3};
  return std::nullopt;
}

// Characters of the digits, the point and the exponent; 0: no digit.
size_t length_of_number(std::string_view text, RealForm form) {
  const size_t whole = digits_at(text, 0);
  size_t length = whole;
  if (length < text.size() && text[length] == '.') {
    const size_t fraction = digits_at(text, length + 1);
    if (whole + fraction == 0) return 0;
    length += 1 + fraction;
  }
  if (length == 0 || form == RealForm::kFixed || length == text.size()) return length;
  if (text[length] != 'e' && text[length] != 'E') return length;
  size_t exponent = length + 1;
  if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
  const size_t digits = digits_at(text, exponent);
  return digits == 0 ? length : exponent + digits;
}

}  // namespace

std::optional<ParsedReal> parse_real(std::string_view text, RealForm form) {
  const size_t sign = !text.empty() && text.front() == '-' ? 1 : 0;
  std::optional<ParsedReal> number = parse_word(text.substr(sign));
  if (!number.has_value()) {
    const size_t length = length_of_number(text.substr(sign), form);
    if (length == 0) return std::nullopt;
    const std::string_view digits = text.substr(sign, length);
    number = ParsedReal{std::strtod(std::string(digits).c_str(), nullptr), length};
    const std::string_view mantissa = digits.substr(0, digits.find_first_of("eE"));
    const bool is_zero = mantissa.find_first_of("123456789") == std::string_view::npos;
    if (std::isinf(number->value) || (number->value == 0 && !is_zero)) return std::nullopt;
  }
  return ParsedReal{sign == 1 ? -number->value : number->value, sign + number->length};
}

std::optional<double> whole_real(std::string_view text, RealForm form) {
  const std::optional<ParsedReal> number = parse_real(text, form);
  if (!number.has_value() || number->length != text.size()) return std::nullopt;
  return number->value;
}

}  // namespace tessera
