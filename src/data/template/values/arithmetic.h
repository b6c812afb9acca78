// + - * / // % ** and signs: as Python computes, but with integers of 64 bits, which fail above
// that.
#pragma once

#include "data/template/values/value.h"

namespace tessera::jinja {

enum class Arithmetic : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower
};

// Strings and lists are joined by +, repeated by *; `%` behind a string formats.
Value compute(Budget& budget, Arithmetic op, const Value& a, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);

}  // namespace tessera::jinja
