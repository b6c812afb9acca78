// What splits and replacements look for: a text, or a regular expression.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/common/json_reader.h"
#include "data/tokenizer/common/piece.h"

namespace tessera {

// Immutable; any thread may use it.
class Pattern {
 public:
  virtual ~Pattern() = default;
  // Matches and what is between them, in order and covering `text`.
  virtual void find(std::string_view text, std::vector<Part>& parts) const = 0;
};

std::unique_ptr<const Pattern> text_pattern(std::string text);
std::unique_ptr<const Pattern> regex_pattern(std::string pattern);  // by a table if it is known
// {"String": TEXT} or {"Regex": PATTERN}.
std::unique_ptr<const Pattern> read_pattern(const JsonPlace& place);

}  // namespace tessera
