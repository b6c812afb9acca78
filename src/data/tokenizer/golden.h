// What a tokenizer gives, compared with what the reference library gave.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace tessera {

struct GoldenDifference {
  size_t entry = 0;   // from 0
  std::string field;  // "ids", "ids_no_special", "decoded", "offsets"
  std::string text;
  std::string expected;  // as JSON
  std::string got;
};

struct GoldenReport {
  size_t num_texts = 0;
  size_t num_values = 0;  // that were compared
  size_t num_different = 0;
  std::vector<GoldenDifference> differences;  // the first few
};

// A JSON list of {"text", "ids", "ids_no_special", "decoded", "offsets"}: ids with and without
// special tokens, the text of ids_no_special without special tokens, and [begin, end] of each of
// "ids" in characters. Any but the text may be left out. Throws ConfigError, naming the entry, for
// anything else.
GoldenReport compare_golden(const Tokenizer& tokenizer, std::string_view json,
                            const std::string& name);

}  // namespace tessera
