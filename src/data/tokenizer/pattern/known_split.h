// The splits of GPT-2, Llama 3 and Qwen2 without a regular expression: the same pieces, by a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "data/tokenizer/unicode/unicode.h"

namespace tessera {

enum class KnownSplit : uint8_t { kGpt2, kLlama3, kQwen2 };

// The pattern of a split as tokenizer.json writes it.
std::string_view pattern_of(KnownSplit split);
// The split that has exactly this pattern.
std::optional<KnownSplit> known_split(std::string_view pattern);

// Where the piece that begins at `at` ends. `text` is valid UTF-8 and has a byte at `at`; pieces
// are never empty and cover the text. Together they take time in proportion to the text.
size_t end_of_piece(KnownSplit split, std::string_view text, size_t at, const uint8_t* table);

}  // namespace tessera
