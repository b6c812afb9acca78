// Characters that web pages and word processors put in the place of those a keyboard has: long
// dashes, curly quotes, spaces that do not break. They look right and mean nothing to a program.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

enum class PastedKind : uint8_t { kDash, kQuote, kSpace, kNothing };  // the last has no width

struct PastedCharacter {
  PastedKind kind = PastedKind::kDash;
  uint32_t code = 0;
  size_t at = 0;     // its first byte
  size_t bytes = 1;  // how long it is
};

// The first of them in `text`.
std::optional<PastedCharacter> find_pasted(std::string_view text);

// "a long dash (U+2014)".
std::string describe(const PastedCharacter& character);

// `text` as a keyboard writes it: - " ' and plain spaces; what has no width is gone.
std::string typed_plainly(std::string_view text);

}  // namespace tessera
