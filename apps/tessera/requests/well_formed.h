// What no output may hold, and whether an output is what it says it is.
#pragma once

#include <string>
#include <string_view>

namespace tessera::testing {

// Empty, or what is wrong: NaN, an infinity, a negative zero, a number near the end of doubles.
std::string bad_number_in(std::string_view text);

// Empty, or why `text` is no XML: tags that do not match, attributes without quotes, bare & and <.
std::string why_no_xml(std::string_view text);

// Empty, or why `text` is no JSON; null counts as wrong, since it is how NaN is written.
std::string why_no_json(std::string_view text);

}  // namespace tessera::testing
