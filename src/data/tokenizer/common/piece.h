// A piece of text on its way to the model: what normalizers and pre-tokenizers made of a part of
// the original, and which bytes of the original every byte of it stands for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct ByteRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

// A character of a new text, and how it came about: 0 it stands for the next character of the old
// one, 1 it is new, -n it stands for the next one and n more after it are gone.
struct Change {
  uint32_t code = 0;
  int32_t change = 0;
};

// A match of a pattern, or what is between two.
struct Part {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool is_match = false;
};

// Where `tracked`, `origin` has a range of the original text for each byte of `text`; otherwise it
// is empty, and only `begin` tells where a piece comes from.
struct TextPiece {
  std::string text;
  std::vector<ByteRange> origin;
  uint32_t begin = 0;  // in the original text
  bool tracked = false;
  std::optional<int32_t> token;  // an added token, which nothing splits any more

  static TextPiece of_original(std::string_view text, uint32_t begin, bool tracked);

  // The bytes [from, to) of the text, at borders of characters.
  [[nodiscard]] TextPiece slice(uint32_t from, uint32_t to) const;
  // The range of the original that the bytes [from, to) of the text stand for.
  [[nodiscard]] ByteRange original_of(uint32_t from, uint32_t to) const;

  // The text becomes the characters of `changes`; `removed` characters at its beginning are gone.
  void transform(std::span<const Change> changes, size_t removed);
  void prepend(std::string_view prefix);  // does nothing to an empty text
  // Every match becomes `content`.
  void replace(std::span<const Part> parts, std::string_view content);
};

}  // namespace tessera
