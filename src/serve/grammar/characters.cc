#include "serve/grammar/characters.h"

#include <algorithm>
#include <array>

#include "data/tokenizer/unicode/unicode.h"

namespace tessera::serve::grammar {
namespace {

struct ShortEscape {
  uint32_t code;
  char letter;
};
constexpr ShortEscape kShortEscapes[] = {{'\b', 'b'}, {'\t', 't'}, {'\n', 'n'}, {'\f', 'f'},
                                         {'\r', 'r'}, {'"', '"'},  {'\\', '\\'}};
constexpr std::string_view kHex = "0123456789abcdef";

char short_escape(uint32_t code) {
  for (const ShortEscape& escape : kShortEscapes) {
    if (escape.code == code) return escape.letter;
  }
  return '\0';
}

bool must_escape(uint32_t code) { return code < 0x20 || code == '"' || code == '\\'; }

// Ranges of code points that UTF-8 writes with equally many bytes, and of which none is a
// surrogate.
constexpr CodeRange kSizes[] = {
    {0x20, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};

uint8_t byte_of(uint32_t code, size_t bytes, size_t at) {
  const size_t shift = 6 * (bytes - 1 - at);
  const uint32_t bits = (code >> shift) & 0x3F;
  if (at > 0) return static_cast<uint8_t>(0x80 | bits);
  if (bytes == 1) return static_cast<uint8_t>(code);
  constexpr uint32_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  return static_cast<uint8_t>(kLead[bytes] | (code >> shift));
}

// Adds lo..hi, both of `bytes` bytes: cut where not all of the bytes that follow are allowed.
void add_range(Nfa& nfa, uint32_t from, CodeRange range, size_t bytes, uint32_t to) {
  for (size_t tail = bytes - 1; tail > 0; --tail) {
    const uint32_t mask = (1U << (6 * tail)) - 1;
    if ((range.lo & ~mask) == (range.hi & ~mask)) continue;
    if ((range.lo & mask) != 0) {
      add_range(nfa, from, {range.lo, range.lo | mask}, bytes, to);
      return add_range(nfa, from, {(range.lo | mask) + 1, range.hi}, bytes, to);
    }
    if ((range.hi & mask) != mask) {
      add_range(nfa, from, {range.lo, (range.hi & ~mask) - 1}, bytes, to);
      return add_range(nfa, from, {range.hi & ~mask, range.hi}, bytes, to);
    }
  }
  for (size_t at = 0; at < bytes; ++at) {
    const uint32_t next = at + 1 == bytes ? to : nfa.add_state();
    nfa.add_edge(from, byte_of(range.lo, bytes, at), byte_of(range.hi, bytes, at), next, at == 0);
    from = next;
  }
}

void add_escapes(Nfa& nfa, uint32_t from, const CodeSet& set, uint32_t to) {
  std::vector<uint32_t> escaped;
  for (const CodeRange& range : set) {
    for (uint32_t code = range.lo; code <= std::min<uint32_t>(range.hi, '\\'); ++code) {
      if (must_escape(code)) escaped.push_back(code);
    }
  }
  if (escaped.empty()) return;
  const uint32_t after = nfa.add_state();
  nfa.add_edge(from, '\\', '\\', after, true);
  std::array<uint32_t, 2> rows = {0, 0};  // after "u000" and "u001"; 0: not yet made
  uint32_t zeros = 0;
  for (const uint32_t code : escaped) {
    if (const char letter = short_escape(code); letter != '\0') {
      nfa.add_edge(after, static_cast<uint8_t>(letter), static_cast<uint8_t>(letter), to);
      continue;
    }
    if (zeros == 0) zeros = nfa.add_bytes(after, "u00");
    uint32_t& row = rows[code >> 4];
    if (row == 0) row = nfa.add_bytes(zeros, kHex.substr(code >> 4, 1));
    const auto digit = static_cast<uint8_t>(kHex[code & 0xF]);
    nfa.add_edge(row, digit, digit, to);
  }
}

}  // namespace

CodeSet normal_form(CodeSet set) {
  std::sort(set.begin(), set.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.lo < b.lo; });
  CodeSet made;
  for (const CodeRange& range : set) {
    if (!made.empty() && range.lo <= made.back().hi + 1) {
      made.back().hi = std::max(made.back().hi, range.hi);
    } else {
      made.push_back(range);
    }
  }
  return made;
}

CodeSet inverse_of(const CodeSet& set) {
  CodeSet made;
  uint32_t next = 0;
  for (const CodeRange& range : set) {
    if (range.lo > next) made.push_back({next, range.lo - 1});
    next = range.hi + 1;
  }
  if (next <= kLastCode) made.push_back({next, kLastCode});
  return made;
}

void add_character(Nfa& nfa, uint32_t from, const CodeSet& set, uint32_t to) {
  const CodeSet escaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  for (const CodeRange& allowed : inverse_of(escaped)) {
    for (const CodeRange& size : kSizes) {
      for (const CodeRange& range : set) {
        const CodeRange part = {std::max({allowed.lo, size.lo, range.lo}),
                                std::min({allowed.hi, size.hi, range.hi})};
        if (part.lo <= part.hi) {
          add_range(nfa, from, part, encoded_size(part.lo), to);
        }
      }
    }
  }
  add_escapes(nfa, from, set, to);
}

std::string canonical_spelling(std::string_view utf8) {
  std::string made;
  for (const char c : utf8) {
    const uint32_t code = static_cast<unsigned char>(c);
    if (!must_escape(code)) {
      made += c;
    } else if (const char letter = short_escape(code); letter != '\0') {
      made += '\\';
      made += letter;
    } else {
      made += "\\u00";
      made += kHex[code >> 4];
      made += kHex[code & 0xF];
    }
  }
  return made;
}

}  // namespace tessera::serve::grammar
