#include "spec/name_patterns.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::vector<std::string> name_patterns(std::string_view key, std::string_view text) {
  std::vector<std::string> patterns;
  if (trim(text).empty()) return patterns;
  for (const std::string_view piece : split(text, ',')) {
    const std::string_view pattern = trim(piece);
    require_config(!pattern.empty(), "{} = \"{}\" has an empty pattern; leave out a comma", key,
                   text);
    patterns.emplace_back(pattern);
  }
  return patterns;
}

// Linear but for the last star, which takes one character more whenever the rest does not match.
bool matches_pattern(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0;
  size_t star = std::string_view::npos, after_star = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::string without_block(std::string_view name) {
  std::string result;
  bool found = false;  // the number of an expert comes later
  for (const std::string_view piece : split(name, '.')) {
    if (!result.empty()) result += '.';
    const bool number = !found && is_number(piece);
    found = found || number;
    result += number ? "*" : std::string(piece);
  }
  return result;
}

}  // namespace tessera
