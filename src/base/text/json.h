// Reading JSON that came from outside, within bounds.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tessera {

inline constexpr size_t kMostJsonBytes = size_t{16} << 20;

// Throws ConfigError "FILE:LINE:COLUMN: reason (byte N)" for a syntax error, text above
// `most_bytes` or nesting deeper than 64.
nlohmann::json parse_json(std::string_view text, const std::string& file_name,
                          size_t most_bytes = kMostJsonBytes);
// The same, where the order of keys matters.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& file_name);

}  // namespace tessera
