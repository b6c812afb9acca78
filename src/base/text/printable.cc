#include "base/text/printable.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/text/text.h"

namespace tessera {
namespace {

struct Range {
  uint32_t first, last;
};

// Beside the control characters: marks that turn the direction of reading, separators of lines and
// paragraphs, a byte-order mark, and tags, which nobody sees.
constexpr std::array<Range, 6> kHidden = {{{0x061c, 0x061c},
                                           {0x200e, 0x200f},
                                           {0x2028, 0x202e},
                                           {0x2066, 0x2069},
                                           {0xfeff, 0xfeff},
                                           {0xe0000, 0xe007f}}};

// The length of a character by its first byte, and the smallest code that needs it; 0: none.
std::pair<size_t, uint32_t> length_of(uint8_t first) {
  if (first < 0x80) return {1, 0};
  if (first >= 0xc2 && first < 0xe0) return {2, 0x80};
  if (first >= 0xe0 && first < 0xf0) return {3, 0x800};
  if (first >= 0xf0 && first < 0xf5) return {4, 0x10000};
  return {0, 0};
}

void append_shown(std::string& shown, std::string_view bytes, const Character& character) {
  if (!character.valid) {
    shown += fmt::format("\\x{:02x}", static_cast<uint8_t>(bytes.front()));
  } else if (is_printable(character.code)) {
    shown += bytes.substr(0, character.bytes);
  } else {
    shown += fmt::format("\\u{:04x}", character.code);
  }
}

}  // namespace

Character first_character(std::string_view text) {
  const auto first = static_cast<uint8_t>(text.front());
  const auto [length, smallest] = length_of(first);
  if (length == 1) return {.code = first};
  if (length == 0) return {.code = first, .valid = false};
  uint32_t code = first & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {.code = first, .valid = false, .cut_off = true};
    const auto byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xc0U) != 0x80) return {.code = first, .valid = false};
    code = code << 6U | (byte & 0x3fU);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < smallest || code > 0x10ffff || surrogate) return {.code = first, .valid = false};
  return {.code = code, .bytes = length};
}

bool is_printable(uint32_t code) {
  if (code == '\n' || code == '\t') return true;
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return false;
  for (const Range& range : kHidden) {
    if (code >= range.first && code <= range.last) return false;
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    append_shown(shown, text, character);
    text.remove_prefix(character.bytes);
  }
  return shown;
}

std::string shortened(std::string_view text, size_t limit) {
  std::string shown;
  size_t count = 0;
  for (; !text.empty(); ++count) {
    const Character character = first_character(text);
    const bool breaks = character.code == '\n' || character.code == '\t';
    if (count < limit && breaks) shown += character.code == '\n' ? "\\n" : "\\t";
    if (count < limit && !breaks) append_shown(shown, text, character);
    text.remove_prefix(character.bytes);
  }
  if (count > limit) {
    shown += fmt::format("… ({} characters)", with_thousands(static_cast<int64_t>(count)));
  }
  return shown;
}

}  // namespace tessera
