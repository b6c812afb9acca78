// Blanks written as a character of their own (U+2581), as pre-tokenizer and decoder have them.
#pragma once

#include <cstdint>
#include <string>

#include "data/tokenizer/common/json_reader.h"

namespace tessera {

enum class PrependScheme : uint8_t { kFirst, kNever, kAlways };

struct Metaspace {
  std::string replacement;
  PrependScheme prepend = PrependScheme::kAlways;  // one before a text that does not begin with it
  bool split = true;
};

Metaspace read_metaspace(const JsonPlace& place);

}  // namespace tessera
