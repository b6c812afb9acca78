// TOML text to entries, with the positions of keys and values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spec/entry.h"

namespace tessera {

// In the order of the file. Syntax errors throw ConfigError "FILE:LINE:COLUMN: reason".
std::vector<Entry> entries_of_toml(std::string_view text, const std::string& file_name);

// `value` as TOML, or as a string where it is not TOML ("runs/demo", "abc"). `at` is where errors
// point. A table gives an entry for each of its keys.
std::vector<Entry> entries_of_value(const std::string& section, const std::string& name,
                                    std::string_view value, const std::string& at);

}  // namespace tessera
