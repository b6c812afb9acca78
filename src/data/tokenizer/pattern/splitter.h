// The loops behind known_split.h, in a header so that they are compiled into those that use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "data/tokenizer/pattern/known_split.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {

// Where pieces end. `text` is valid UTF-8; every `at` is below its size.
class Splitter {
 public:
  Splitter(std::string_view text, const uint8_t* table) : text_(text), table_(table) {}

  template <KnownSplit kSplit>
  [[nodiscard]] size_t end_of_piece(size_t at) const {
    if constexpr (kSplit == KnownSplit::kGpt2) return gpt2(at);
    return llama3(at, kSplit == KnownSplit::kLlama3 ? 3 : 1);
  }

 private:
  static constexpr uint8_t kClassBits = kLetterBit | kNumberBit | kSpaceBit;

  struct Seen {
    uint8_t bits = 0;    // 0: none of letter, number, space
    uint32_t bytes = 0;  // 0: the end of the text
  };

  [[nodiscard]] size_t gpt2(size_t at) const {
    const char c = text_[at];
    if (c == '\'') {
      if (const size_t bytes = contraction(at, false); bytes > 0) return at + bytes;
    }
    const Seen first = look(at);
    if (c == ' ') {
      const Seen next = look(at + 1);
      if (next.bytes > 0 && (next.bits & kSpaceBit) == 0) return run(at + 1, next);
    }
    if ((first.bits & kSpaceBit) == 0) return run(at, first);
    return spaces(at);
  }

  [[nodiscard]] size_t llama3(size_t at, int most_digits) const {
    const char c = text_[at];
    if (c == '\'') {
      if (const size_t bytes = contraction(at, true); bytes > 0) return at + bytes;
    }
    const Seen first = look(at);
    if ((first.bits & kLetterBit) != 0) return run(at, first);
    if ((first.bits & kNumberBit) != 0) return digits(at, most_digits);
    const Seen next = look(at + first.bytes);
    if ((next.bits & kLetterBit) != 0 && c != '\r' && c != '\n') return run(at + first.bytes, next);
    if (c == ' ' && next.bytes > 0 && next.bits == 0) return newlines(run(at + 1, next));
    if (first.bits == 0) return newlines(run(at, first));
    return spaces_or_newline(at);
  }

  [[nodiscard]] Seen look(size_t at) const {
    if (at >= text_.size()) return {};
    const auto byte = static_cast<unsigned char>(text_[at]);
    if (byte < 0x80) return {static_cast<uint8_t>(table_[byte] & kClassBits), 1};
    const CodePoint point = code_point_at(text_, at);
    return {static_cast<uint8_t>(table_[point.code] & kClassBits), point.bytes};
  }

  // The end of the characters that are of the class of `seen`, which stands at `at`.
  [[nodiscard]] size_t run(size_t at, Seen seen) const {
    const uint8_t bits = seen.bits;
    do {
      at += seen.bytes;
      // Most of a text is ASCII: a byte and its class, nothing else.
      for (; at < text_.size(); ++at) {
        const auto byte = static_cast<unsigned char>(text_[at]);
        if (byte >= 0x80) break;
        if ((table_[byte] & kClassBits) != bits) return at;
      }
      seen = look(at);
    } while (seen.bytes > 0 && seen.bits == bits);
    return at;
  }

  [[nodiscard]] size_t digits(size_t at, int most) const {
    for (Seen seen = look(at); most > 0 && (seen.bits & kNumberBit) != 0; --most) {
      at += seen.bytes;
      seen = look(at);
    }
    return at;
  }

  [[nodiscard]] size_t newlines(size_t at) const {
    while (at < text_.size() && (text_[at] == '\r' || text_[at] == '\n')) ++at;
    return at;
  }

  // \s+(?!\S)|\s+: all of them before the end of the text, else all but the last, which goes with
  // what follows it.
  [[nodiscard]] size_t spaces(size_t at) const {
    const size_t end = run(at, look(at));
    if (end == text_.size()) return end;
    const size_t last = start_of_last(text_, end);
    return last == at ? end : last;
  }

  // \s*[\r\n]+ before that: up to the last newline of the run.
  [[nodiscard]] size_t spaces_or_newline(size_t at) const {
    const size_t end = run(at, look(at));
    for (size_t i = end; i > at; --i) {
      if (text_[i - 1] == '\r' || text_[i - 1] == '\n') return i;
    }
    if (end == text_.size()) return end;
    const size_t last = start_of_last(text_, end);
    return last == at ? end : last;
  }

  // The bytes of 's|'t|'re|'ve|'m|'ll|'d at `at`, or 0. U+017F, a long s, is an s in another case.
  [[nodiscard]] size_t contraction(size_t at, bool any_case) const {
    const auto letter = [&](size_t i) -> char {
      if (i >= text_.size()) return '\0';
      const char c = text_[i];
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    };
    const char first = letter(at + 1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    const char second = letter(at + 2);
    if ((first == 'r' || first == 'v') && second == 'e') return 3;
    if (first == 'l' && second == 'l') return 3;
    if (any_case && text_.substr(at + 1, 2) == "\xC5\xBF") return 3;
    return 0;
  }

  std::string_view text_;
  const uint8_t* table_;
};

}  // namespace tessera
