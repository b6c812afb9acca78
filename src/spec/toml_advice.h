// What to do about a file that is no TOML: the parser knows what it expected, not what was meant.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// ConfigError for text that is another format as a whole: JSON, UTF-16, or no text at all.
void refuse_other_formats(std::string_view text, const std::string& file_name);

// What the parser says, without the name of the part of it that stopped.
std::string_view parser_reason(std::string_view description);

// What to write instead in line `line` (from 1) of `text`, where the parser stopped for `reason`:
// "; a text goes between quotes: preset = \"gpt2\"". Empty where nothing better is known.
std::string toml_advice(std::string_view text, size_t line, std::string_view reason);

}  // namespace tessera
