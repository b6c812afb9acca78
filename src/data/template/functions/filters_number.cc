#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/text/parse_real.h"
#include "base/text/text.h"
#include "data/template/functions/filters.h"
#include "data/template/values/arithmetic.h"
#include "data/template/values/compare.h"
#include "data/template/values/text_ops.h"

namespace tessera::jinja {
namespace {

constexpr int64_t kMaxPrecision = 300;

// What Python's float() reads.
std::optional<double> real_of_text(std::string_view text) {
  std::string plain = lower_case(strip(text));
  if (plain.starts_with('+')) plain.erase(0, 1);
  for (size_t i = 1; i + 1 < plain.size();) {  // 1_000
    const auto digit = [&](size_t at) { return plain[at] >= '0' && plain[at] <= '9'; };
    if (plain[i] == '_' && digit(i - 1) && digit(i + 1)) {
      plain.erase(i, 1);
    } else {
      ++i;
    }
  }
  const std::string_view digits =
      plain.starts_with('-') ? std::string_view(plain).substr(1) : std::string_view(plain);
  if (digits == "inf" || digits == "infinity") return plain[0] == '-' ? -INFINITY : INFINITY;
  if (digits == "nan") return std::nan("");
  if (digits.find('(') != digits.npos) return std::nullopt;  // "nan(...)"
  return whole_real(plain);
}

std::optional<int64_t> integer_of_text(std::string_view text, int base) {
  std::string plain(strip(text));
  std::erase(plain, '_');
  if (plain.starts_with('+')) plain.erase(0, 1);
  int64_t value = 0;
  const char* end = plain.data() + plain.size();
  const auto [at, error] = std::from_chars(plain.data(), end, value, base);
  if (error == std::errc::result_out_of_range && at == end) {
    fault("the filter 'int': the number is above 64 bits");
  }
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

Value truncated(double real) {
  if (std::abs(real) >= 9.2e18) fault("the filter 'int': {} is above 64 bits", real);
  return Value::integer(static_cast<int64_t>(real));
}

Value as_int(Budget& /*budget*/, const std::string& /*name*/, const Value& value,
             const Arguments& arguments) {
  const Bound bound("the filter 'int'", arguments, {"default", "base"});
  const Value otherwise = bound.find(0) == nullptr ? Value::integer(0) : bound.at(0);
  const int64_t base = bound.integer_or(1, 10);
  if (base < 2 || base > 36) fault("the filter 'int': the base is {}, not 2 to 36", base);
  if (value.is<Undefined>()) fail_undefined(value);
  if (const auto integer = as_integer(value)) return Value::integer(*integer);
  if (const double* real = value.as<double>()) {
    if (std::isinf(*real)) fault("the filter 'int': infinity is no integer");
    return std::isnan(*real) ? otherwise : truncated(*real);
  }
  const std::string* text = value.text();
  if (text == nullptr) return otherwise;
  if (const auto integer = integer_of_text(*text, static_cast<int>(base))) {
    return Value::integer(*integer);
  }
  const auto real = real_of_text(*text);
  return real && std::isfinite(*real) ? truncated(*real) : otherwise;
}

Value as_float(Budget& /*budget*/, const std::string& /*name*/, const Value& value,
               const Arguments& arguments) {
  const Bound bound("the filter 'float'", arguments, {"default"});
  if (value.is<Undefined>()) fail_undefined(value);
  if (const auto real = as_real(value)) return Value::real(*real);
  if (const std::string* text = value.text()) {
    if (const auto real = real_of_text(*text)) return Value::real(*real);
  }
  return bound.find(0) == nullptr ? Value::real(0) : bound.at(0);
}

Value absolute(Budget& /*budget*/, const std::string& /*name*/, const Value& value,
               const Arguments& arguments) {
  const Bound none("the filter 'abs'", arguments, {});
  if (const auto integer = as_integer(value)) {
    return *integer < 0 ? negate(value) : Value::integer(*integer);
  }
  if (const double* real = value.as<double>()) return Value::real(std::abs(*real));
  if (value.is<Undefined>()) fail_undefined(value);
  fault("the filter 'abs' wants a number, not {}", kind_words(value));
}

Value rounded(Budget& /*budget*/, const std::string& /*name*/, const Value& value,
              const Arguments& arguments) {
  const Bound bound("the filter 'round'", arguments, {"precision", "method"});
  const int64_t precision = bound.integer_or(0, 0);
  const std::string method = bound.find(1) == nullptr ? "common" : bound.text(1);
  if (precision < 0 || precision > kMaxPrecision) {
    fault("the filter 'round': the precision is {}, not 0 to {}", precision, kMaxPrecision);
  }
  const auto real = as_real(value);
  if (value.is<Undefined>()) fail_undefined(value);
  if (!real) fault("the filter 'round' wants a number, not {}", kind_words(value));
  if (method == "common") {
    if (const auto integer = as_integer(value)) return Value::integer(*integer);
    // As Python: the decimal digits of the exact value, halves to even.
    return Value::real(std::strtod(fmt::format("{:.{}f}", *real, precision).c_str(), nullptr));
  }
  if (method != "ceil" && method != "floor") {
    fault("the filter 'round': the method is '{}', not common, ceil or floor", method);
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *real * scale;
  if (!std::isfinite(scaled)) fault("the filter 'round': {} cannot be rounded", *real);
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

constexpr FilterRow kFilters[] = {
    {"abs", absolute}, {"float", as_float}, {"int", as_int}, {"round", rounded}};

}  // namespace

std::span<const FilterRow> number_filters() { return kFilters; }

}  // namespace tessera::jinja
