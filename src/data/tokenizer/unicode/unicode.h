// UTF-8 and classes of characters, for text that is split into tokens. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

inline constexpr uint8_t kLetterBit = 1;
inline constexpr uint8_t kNumberBit = 2;
inline constexpr uint8_t kSpaceBit = 4;    // White_Space, the 25 characters of \s
inline constexpr uint8_t kNumericBit = 8;  // what the pre-tokenizer Digits calls a digit
inline constexpr uint8_t kWordBit = 16;    // \w beside an added token
inline constexpr uint8_t kNotNormalizedBit = 32;
inline constexpr uint8_t kMarkBit = 64;  // what the normalizer StripAccents leaves out
inline constexpr uint8_t kPunctuationBit = 128;

inline constexpr uint32_t kCodePoints = 0x110000;
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// The bits of every code point; made once, when first asked for.
const uint8_t* character_table();

struct CodePoint {
  uint32_t code = 0;
  uint32_t bytes = 1;
};

// The character at `at`, where one begins in a text that is valid UTF-8.
inline CodePoint code_point_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return uint32_t{static_cast<unsigned char>(text[at + i])}; };
  const uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {(first & 0xF) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(first & 7) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

inline bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Where the character that ends at `end` begins, in valid UTF-8; `end` is not 0.
inline size_t start_of_last(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (is_continuation(text[at])) --at;
  return at;
}

inline size_t encoded_size(uint32_t code) {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}
void append_utf8(uint32_t code, std::string& out);
size_t count_code_points(std::string_view text);

// How many bytes at the start of `text` are valid UTF-8, whole characters only.
size_t valid_prefix(std::string_view text);

// What stands at the start of a text whose first byte begins no valid character: how many bytes one
// U+FFFD stands for, and whether more bytes could have made it a character.
struct BrokenCharacter {
  size_t bytes = 1;
  bool cut_off = false;
};
BrokenCharacter broken_character(std::string_view text);

// `text` with U+FFFD for what is not UTF-8, one for each longest beginning of a character (as the
// Unicode standard recommends, and browsers do). `rest` begins with bytes that are kept back: those
// of a character that the end of the text cut off; without it they are replaced too.
void append_lossy(std::string_view text, std::string& out, std::string* rest = nullptr);

}  // namespace tessera
