#include "data/tokenizer/unicode/unicode.h"

#include <cstring>
#include <memory>
#include <span>

#include "data/tokenizer/unicode/unicode_tables.h"

namespace tessera {
namespace {

constexpr CharacterRange kSpaces[] = {
    {0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};

void mark(std::span<const CharacterRange> ranges, uint8_t bit, uint8_t* table) {
  for (const CharacterRange range : ranges) {
    for (uint32_t code = range.first; code <= range.last; ++code) table[code] |= bit;
  }
}

std::unique_ptr<uint8_t[]> make_table() {
  auto table = std::make_unique<uint8_t[]>(kCodePoints);
  for (const NamedRanges& letters : letter_categories()) {
    mark(letters.ranges, kLetterBit, table.get());
  }
  for (const NamedRanges& one : other_categories()) {
    if (one.name.starts_with('N')) mark(one.ranges, kNumberBit, table.get());
  }
  mark(kSpaces, kSpaceBit, table.get());
  mark(numeric_ranges(), kNumericBit, table.get());
  mark(word_ranges(), kWordBit, table.get());
  mark(not_normalized_ranges(), kNotNormalizedBit, table.get());
  mark(mark_ranges(), kMarkBit, table.get());
  mark(punctuation_ranges(), kPunctuationBit, table.get());
  return table;
}

struct Lead {
  uint32_t length = 0;  // 0: begins nothing
  uint32_t low = 0x80;  // what the second byte may be
  uint32_t high = 0xBF;
};

// Table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing above U+10FFFF.
Lead lead_of(uint32_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

struct Beginning {
  uint32_t bytes = 0;   // of the longest beginning of a character
  uint32_t length = 0;  // of the character
};

Beginning beginning_of(std::string_view text) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  uint32_t bytes = lead.length == 0 ? 0 : 1;
  while (bytes < lead.length && bytes < text.size()) {
    const uint32_t byte = static_cast<unsigned char>(text[bytes]);
    const bool fits =
        bytes == 1 ? byte >= lead.low && byte <= lead.high : byte >= 0x80 && byte <= 0xBF;
    if (!fits) break;
    ++bytes;
  }
  return {bytes, lead.length};
}

}  // namespace

const uint8_t* character_table() {
  static const std::unique_ptr<uint8_t[]> table = make_table();
  return table.get();
}

void append_utf8(uint32_t code, std::string& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += is_continuation(c) ? 0 : 1;
  return count;
}

size_t valid_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight = 0;
    if (at + sizeof(eight) <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof(eight));
      if ((eight & 0x8080808080808080) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    const Beginning beginning = beginning_of(text.substr(at));
    if (beginning.length == 0 || beginning.bytes < beginning.length) return at;
    at += beginning.length;
  }
  return at;
}

BrokenCharacter broken_character(std::string_view text) {
  const Beginning beginning = beginning_of(text);
  if (beginning.bytes == 0) return {1, false};
  return {beginning.bytes, beginning.bytes == text.size() && beginning.bytes < beginning.length};
}

void append_lossy(std::string_view text, std::string& out, std::string* rest) {
  if (rest != nullptr) rest->clear();
  while (!text.empty()) {
    const size_t valid = valid_prefix(text);
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return;
    const BrokenCharacter broken = broken_character(text);
    if (rest != nullptr && broken.cut_off) {
      rest->assign(text);
      return;
    }
    out.append(kReplacementCharacter);
    text.remove_prefix(broken.bytes);
  }
}

}  // namespace tessera
