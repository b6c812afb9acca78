// Nouns after numbers. Pure.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// "1 day", "1.5 days", "2.4M copies": `number` as it is to be shown, and `what` in the singular.
std::string with_noun(std::string_view number, std::string_view what);

}  // namespace tessera
