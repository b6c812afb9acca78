#include "data/tokenizer/common/byte_alphabet.h"

#include <array>

#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

constexpr uint32_t kCharacters = 256 + 68;

struct Alphabet {
  std::array<uint16_t, 256> character{};
  std::array<int16_t, kCharacters> byte{};

  constexpr Alphabet() {
    byte.fill(-1);
    uint16_t next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool shown = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      const uint16_t c = shown ? static_cast<uint16_t>(b) : next++;
      character[static_cast<size_t>(b)] = c;
      byte[c] = static_cast<int16_t>(b);
    }
  }
};
constexpr Alphabet kAlphabet;

}  // namespace

uint32_t character_of_byte(uint8_t byte) { return kAlphabet.character[byte]; }

std::optional<std::string> bytes_of(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.code >= kCharacters || kAlphabet.byte[point.code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[point.code]));
    at += point.bytes;
  }
  return bytes;
}

std::string in_byte_alphabet(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) append_utf8(character_of_byte(static_cast<uint8_t>(byte)), text);
  return text;
}

}  // namespace tessera
