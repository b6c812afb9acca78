// What tokenizer.json calls the post-processor: special tokens around a text, and what offsets
// leave out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/common/json_reader.h"

namespace tessera {

struct PostProcessing {
  // The tokens of the text, or special ones around it, in order.
  struct Part {
    bool is_text = false;
    std::vector<int32_t> ids;  // of special tokens
  };
  std::vector<Part> parts = {{true, {}}};
  // Offsets do not cover the white space at the borders of a token. The value: whether one blank
  // before the text counts as put there.
  std::vector<bool> trims;
};

// Throws ConfigError for an unknown type, naming it, and for a template of two texts where one is
// meant.
PostProcessing read_post_processor(const JsonPlace& place);

}  // namespace tessera
