// ==, <, `in`: as Python compares. Every part that is looked at is a step.
#pragma once

#include <optional>

#include "data/template/values/value.h"

namespace tessera::jinja {

bool equal(Budget& budget, const Value& a, const Value& b);
// Fails for values that have no order between them.
bool less(Budget& budget, const Value& a, const Value& b);
// `item in container`; uses up a generator as far as it looks.
bool contains(Budget& budget, const Value& container, const Value& item);

enum class Comparison : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };
bool compare(Budget& budget, Comparison how, const Value& a, const Value& b);

// Numbers; true and false are 1 and 0.
std::optional<int64_t> as_integer(const Value& value);
std::optional<double> as_real(const Value& value);

// The value of a key of any kind, or null.
const Value* find_key(Budget& budget, const Dict& dict, const Value& key);

}  // namespace tessera::jinja
