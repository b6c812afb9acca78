// The values of "format" that are enforced, as patterns.
#pragma once

#include <string>
#include <string_view>

namespace tessera::serve::grammar {

// Empty for one that is not known.
std::string_view pattern_of_format(std::string_view format);
std::string known_formats();  // "date, time, ..."

}  // namespace tessera::serve::grammar
