// How byte-level tokenizers write bytes as characters: printable ones as themselves, the others as
// U+0100 and up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

uint32_t character_of_byte(uint8_t byte);
// The bytes that a text in this alphabet stands for; nothing where it has other characters.
std::optional<std::string> bytes_of(std::string_view text);
// Every byte of `bytes` as its character.
std::string in_byte_alphabet(std::string_view bytes);

}  // namespace tessera
