#include "data/template/values/arithmetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "data/template/values/compare.h"
#include "data/template/values/format.h"

namespace tessera::jinja {
namespace {

std::string_view sign_of(Arithmetic op) {
  constexpr std::array<std::string_view, 7> kSigns = {"+", "-", "*", "/", "//", "%", "**"};
  return kSigns.at(static_cast<size_t>(op));
}

[[noreturn]] void fail_operands(Arithmetic op, const Value& a, const Value& b) {
  if (a.is<Undefined>()) fail_undefined(a);
  if (b.is<Undefined>()) fail_undefined(b);
  fault("'{}' does not work between {} and {}", sign_of(op), kind_words(a), kind_words(b));
}

[[noreturn]] void fail_overflow(Arithmetic op) {
  fault("the result of '{}' is above 64 bits", sign_of(op));
}

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) fault("0 has no negative power");
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  if (base == 0 || base == 1) return Value::integer(exponent == 0 ? 1 : base);
  if (base == -1) return Value::integer(exponent % 2 == 0 ? 1 : -1);
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {  // at most 63 turns before it is too large
    if (__builtin_mul_overflow(result, base, &result)) fail_overflow(Arithmetic::kPower);
  }
  return Value::integer(result);
}

Value of_integers(Arithmetic op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Arithmetic::kAdd:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow(op);
      return Value::integer(result);
    case Arithmetic::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow(op);
      return Value::integer(result);
    case Arithmetic::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow(op);
      return Value::integer(result);
    case Arithmetic::kPower:
      return integer_power(a, b);
    default:
      break;
  }
  if (b == 0) fault("'{}' by zero", sign_of(op));
  if (op == Arithmetic::kDivide) {
    return Value::real(static_cast<double>(a) / static_cast<double>(b));
  }
  if (b == -1) {  // the one quotient that may not fit
    if (op == Arithmetic::kModulo) return Value::integer(0);
    if (__builtin_sub_overflow(int64_t{0}, a, &result)) fail_overflow(op);
    return Value::integer(result);
  }
  const int64_t quotient = floor_divide(a, b);
  return Value::integer(op == Arithmetic::kFloorDivide ? quotient : a - quotient * b);
}

double floor_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  if ((rest < 0) != (b < 0)) rest += b;
  return rest;
}

Value of_reals(Arithmetic op, double a, double b) {
  switch (op) {
    case Arithmetic::kAdd:
      return Value::real(a + b);
    case Arithmetic::kSubtract:
      return Value::real(a - b);
    case Arithmetic::kMultiply:
      return Value::real(a * b);
    case Arithmetic::kPower: {
      const double power = std::pow(a, b);
      if (std::isnan(power) && !std::isnan(a) && !std::isnan(b))
        fault("{} ** {} is no number", a, b);
      if (a == 0 && b < 0) fault("0 has no negative power");
      if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) fail_overflow(op);
      return Value::real(power);
    }
    default:
      break;
  }
  if (b == 0) fault("'{}' by zero", sign_of(op));
  if (op == Arithmetic::kDivide) return Value::real(a / b);
  const double rest = floor_modulo(a, b);
  if (op == Arithmetic::kModulo) return Value::real(rest);
  return Value::real(std::nearbyint((a - rest) / b));
}

Value repeat(Budget& budget, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const auto require_room = [&](size_t size) {
    if (size > 0 && times > budget.limits().made_bytes / static_cast<int64_t>(size)) {
      fault("'*' would make more than {} bytes", budget.limits().made_bytes);
    }
  };
  if (const std::string* text = value.text()) {
    require_room(text->size());
    std::string result;
    if (text->empty()) return make_text(budget, "");
    for (int64_t i = 0; i < times; ++i) result += *text;
    return make_text(budget, std::move(result));
  }
  const Items& items = *value.items();
  require_room(items.values.size() * sizeof(Value));
  std::vector<Value> values;
  for (int64_t i = 0; i < times && !items.values.empty(); ++i) {
    values.insert(values.end(), items.values.begin(), items.values.end());
  }
  return make_items(budget, items.kind, std::move(values));
}

bool is_sequence_value(const Value& value) {
  const Items* items = value.items();
  return items != nullptr && (items->kind == ItemsKind::kList || items->kind == ItemsKind::kTuple);
}

// What markupsafe makes of a text.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Value joined_texts(Budget& budget, const Value& a, const Value& b) {
  if (!a.is_safe() && !b.is_safe()) return make_text(budget, *a.text() + *b.text());
  const auto part = [](const Value& value) {
    return value.is_safe() ? *value.text() : escaped(*value.text());
  };
  return make_text(budget, part(a) + part(b)).marked_safe();
}

std::optional<Value> of_sequences(Budget& budget, Arithmetic op, const Value& a, const Value& b) {
  if (op == Arithmetic::kAdd) {
    if (a.is<TextPtr>() && b.is<TextPtr>()) return joined_texts(budget, a, b);
    if (is_sequence_value(a) && is_sequence_value(b) && a.items()->kind == b.items()->kind) {
      std::vector<Value> values = a.items()->values;
      values.insert(values.end(), b.items()->values.begin(), b.items()->values.end());
      return make_items(budget, a.items()->kind, std::move(values));
    }
  }
  if (op == Arithmetic::kMultiply) {
    const auto times_b = as_integer(b), times_a = as_integer(a);
    if ((a.is<TextPtr>() || is_sequence_value(a)) && times_b) return repeat(budget, a, *times_b);
    if ((b.is<TextPtr>() || is_sequence_value(b)) && times_a) return repeat(budget, b, *times_a);
  }
  if (op == Arithmetic::kModulo && a.is<TextPtr>()) {
    return make_text(budget, percent_format(budget, *a.text(), b));
  }
  return std::nullopt;
}

}  // namespace

Value compute(Budget& budget, Arithmetic op, const Value& a, const Value& b) {
  const auto x = as_integer(a), y = as_integer(b);
  if (x && y) return of_integers(op, *x, *y);
  const auto p = as_real(a), q = as_real(b);
  if (p && q) return of_reals(op, *p, *q);
  if (auto result = of_sequences(budget, op, a, b)) return *std::move(result);
  fail_operands(op, a, b);
}

Value negate(const Value& value) {
  if (const auto integer = as_integer(value)) {
    return of_integers(Arithmetic::kSubtract, 0, *integer);
  }
  if (const double* real = value.as<double>()) return Value::real(-*real);
  if (value.is<Undefined>()) fail_undefined(value);
  fault("{} has no negative", kind_words(value));
}

Value plus(const Value& value) {
  if (const auto integer = as_integer(value)) return Value::integer(*integer);
  if (value.is<double>()) return value;
  if (value.is<Undefined>()) fail_undefined(value);
  fault("'+' does not work before {}", kind_words(value));
}

}  // namespace tessera::jinja
