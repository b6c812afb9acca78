// For tests of pictures and texts.
#pragma once

#include <string>
#include <string_view>

namespace tessera::testing {

// How often `part` stands in `text`.
inline size_t count_parts(const std::string& text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace tessera::testing
