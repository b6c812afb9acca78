// Text from files, the network or the command line, made fit to be shown: nothing in it moves a
// cursor, turns the direction of reading or breaks an encoding. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// The first character of a text that is not empty, as UTF-8 has it.
struct Character {
  uint32_t code = 0;
  size_t bytes = 1;
  bool valid = true;     // false: the first byte begins no character
  bool cut_off = false;  // not valid, but more bytes could make it so
};
Character first_character(std::string_view text);

// Whether terminals and browsers show it as itself. Newline and tab count as such.
bool is_printable(uint32_t code);

// `text` with all that is not printable spelled out: "\u001b", "\u202e", and "\xff" for a byte that
// is no UTF-8.
std::string printable(std::string_view text);

// At most `limit` characters of `text`, printable and on one line, and how many it has where they
// are not all: what messages show of a name or a value that may be long or hostile.
std::string shortened(std::string_view text, size_t limit = 200);

}  // namespace tessera
