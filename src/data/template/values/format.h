// `"%s" % value` and `"{}".format(value)`, as far as templates need them.
#pragma once

#include <string>
#include <string_view>

#include "data/template/values/arguments.h"
#include "data/template/values/value.h"

namespace tessera::jinja {

// %s %r %d %i %f %x %X %o %% with flags, width and precision; `values` is a tuple or one value, or
// a mapping for %(name)s. Fails for other conversions and for values too many or too few.
std::string percent_format(Budget& budget, std::string_view pattern, const Value& values);

// {} {0} {name} and doubled braces. Fails for attributes, conversions and format specifications.
std::string brace_format(Budget& budget, std::string_view pattern, const Arguments& arguments);

}  // namespace tessera::jinja
