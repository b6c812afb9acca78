// Jinja's tests: what stands behind `is`.
#pragma once

#include <optional>
#include <string_view>

#include "data/template/values/arguments.h"
#include "data/template/values/value.h"

namespace tessera::jinja {

bool is_check(std::string_view name);
// "did you mean ...?" for a name that is none.
std::string check_suggestion(std::string_view name);
bool apply_check(Budget& budget, std::string_view name, const Value& value,
                 const Arguments& arguments);

}  // namespace tessera::jinja
