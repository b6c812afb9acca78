// The text of a line of JSON.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// The text under `key` of the object that `line` is, in `text`. Memory is bounded by the line,
// whatever else is in it. Returns what is wrong with the line; empty: nothing.
std::string json_text(std::string_view line, std::string_view key, std::string& text);

}  // namespace tessera
