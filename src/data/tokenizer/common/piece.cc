#include "data/tokenizer/common/piece.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {

TextPiece TextPiece::of_original(std::string_view text, uint32_t begin, bool tracked) {
  TextPiece piece;
  piece.text = text;
  piece.begin = begin;
  piece.tracked = tracked;
  if (!tracked) return piece;
  piece.origin.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const uint32_t first = begin + static_cast<uint32_t>(at);
    piece.origin.insert(piece.origin.end(), point.bytes, {first, first + point.bytes});
    at += point.bytes;
  }
  return piece;
}

ByteRange TextPiece::original_of(uint32_t from, uint32_t to) const {
  // The same numbers for nothing, as the reference library has it.
  if (from >= to) return {begin + from, begin + from};
  if (!tracked) return {begin + from, begin + to};
  return {origin[from].begin, origin[to - 1].end};
}

TextPiece TextPiece::slice(uint32_t from, uint32_t to) const {
  TextPiece part;
  part.text = text.substr(from, to - from);
  part.begin = original_of(from, to).begin;
  part.tracked = tracked;
  if (tracked) part.origin.assign(origin.begin() + from, origin.begin() + to);
  return part;
}

void TextPiece::transform(std::span<const Change> changes, size_t removed) {
  std::string made;
  made.reserve(text.size());
  std::vector<ByteRange> ranges;
  if (tracked) ranges.reserve(text.size());
  size_t at = 0;  // in the old text
  const auto skip = [&](size_t characters) {
    for (; characters > 0 && at < text.size(); --characters) at += code_point_at(text, at).bytes;
  };
  skip(removed);
  for (const Change& one : changes) {
    append_utf8(one.code, made);
    if (tracked) {
      const bool is_new = one.change > 0;
      TESSERA_CHECK(is_new || at < origin.size(), "a character of byte {} of {}", at, text.size());
      const ByteRange range =
          is_new ? (at < 1 ? ByteRange{begin, begin} : origin[at - 1]) : origin[at];
      ranges.insert(ranges.end(), encoded_size(one.code), range);
    }
    if (one.change <= 0) skip(1 + static_cast<size_t>(-one.change));
  }
  text = std::move(made);
  origin = std::move(ranges);
}

void TextPiece::prepend(std::string_view prefix) {
  if (text.empty()) return;
  if (prefix.empty() && tracked) {
    // To the reference library the first character is new then, and comes from nothing.
    std::fill_n(origin.begin(), code_point_at(text, 0).bytes, ByteRange{begin, begin});
  }
  text.insert(0, prefix);
  // What is put before the first character comes from where that one comes from.
  if (tracked) origin.insert(origin.begin(), prefix.size(), ByteRange(origin.front()));
}

void TextPiece::replace(std::span<const Part> parts, std::string_view content) {
  std::string made;
  std::vector<ByteRange> ranges;
  made.reserve(text.size());
  for (const Part& part : parts) {
    if (!part.is_match) {
      made.append(text, part.begin, part.end - part.begin);
      if (tracked) {
        ranges.insert(ranges.end(), origin.begin() + part.begin, origin.begin() + part.end);
      }
      continue;
    }
    made.append(content);
    if (tracked) {
      const ByteRange range = part.end < 1 ? ByteRange{begin, begin} : origin[part.end - 1];
      ranges.insert(ranges.end(), content.size(), range);
    }
  }
  text = std::move(made);
  origin = std::move(ranges);
}

}  // namespace tessera
