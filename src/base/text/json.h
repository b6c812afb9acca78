// Reading JSON that came from outside, within bounds.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tessera {

// Throws ConfigError "FILE:LINE:COLUMN: reason (byte N)" for a syntax error, text above 16 MiB or
// nesting deeper than 64.
nlohmann::json parse_json(std::string_view text, const std::string& file_name);

}  // namespace tessera
