// Methods of strings, lists and mappings.
#pragma once

#include "data/template/values/arguments.h"
#include "data/template/values/value.h"

namespace tessera::jinja {

enum class MethodKind : uint8_t {
  kNone,     // Python's type has no such attribute
  kKnown,    // call_method() has it
  kChanges,  // it would change the value: the sandbox hides it
  kRefused,  // Python has it, this does not
};
MethodKind method_of(const Value& value, std::string_view name);

// A method for which method_of() says kKnown.
Value call_method(Budget& budget, const Value& self, const std::string& name,
                  const Arguments& arguments);

// Those of strings.
bool is_text_method(std::string_view name);
Value call_text_method(Budget& budget, const std::string& self, const std::string& name,
                       const Arguments& arguments);

}  // namespace tessera::jinja
