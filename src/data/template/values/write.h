// Values as text: what `{{ value }}` prints (Python's str), how it looks inside a list (repr), and
// `| tojson`.
#pragma once

#include <optional>
#include <string>

#include "data/template/values/value.h"

namespace tessera::jinja {

// Fails for what has no text that could be relied on: generators, functions, loops, namespaces.
std::string text_of(Budget& budget, const Value& value);
std::string repr_of(Budget& budget, const Value& value);
std::string real_text(double value);  // Python's repr: "0.1", "1e+16", "inf"

// The arguments of Python's json.dumps, with transformers' default for `ensure_ascii`.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // of one level
  std::string between = ", ";
  std::string after_key = ": ";
};
std::string json_of(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace tessera::jinja
