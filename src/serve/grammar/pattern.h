// The value of "pattern": a regular expression, as the part of ECMA-262 that is regular.
#pragma once

#include <cstdint>
#include <string_view>

#include "serve/grammar/automaton.h"

namespace tessera::serve::grammar {

// What stands between the quotes of a string that has a match of `pattern` somewhere, and from
// `min` to `max` characters (max < 0: no limit). Known: characters and their escapes, '.', classes,
// \d \w \s and their opposites, groups, '|', * + ? {n} {n,} {n,m} (lazy ones too), ^ and $. Throws
// ConfigError "PLACE:
// ..." for anything else, by name.
Dfa string_of_pattern(std::string_view pattern, std::string_view place, int64_t min, int64_t max,
                      Budget& budget);

}  // namespace tessera::serve::grammar
