#include "data/tokenizer/encoder.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/common/byte_alphabet.h"
#include "data/tokenizer/tokenizer_parts.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

// How many characters of white space a token begins or ends with, in either spelling.
size_t spaces_at(std::string_view token, bool at_end) {
  const uint8_t* table = character_table();
  size_t count = 0;
  while (!token.empty()) {
    const size_t at = at_end ? start_of_last(token, token.size()) : 0;
    const CodePoint point = code_point_at(token, at);
    const bool is_space =
        point.code == character_of_byte(' ') || (table[point.code] & kSpaceBit) != 0;
    if (!is_space) break;
    ++count;
    if (at_end) {
      token.remove_suffix(point.bytes);
    } else {
      token.remove_prefix(point.bytes);
    }
  }
  return count;
}

// From bytes to characters.
void count_characters(std::string_view text, std::vector<ByteRange>& offsets) {
  std::vector<uint32_t> before(text.size() + 1);  // characters that begin before a byte
  uint32_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    before[i] = is_continuation(text[i]) ? count - 1 : count++;
  }
  before[text.size()] = count;
  for (ByteRange& range : offsets) range = {before[range.begin], before[range.end]};
}

// At both ends of a token.
struct Spaces {
  uint32_t leading = 0, trailing = 0;
};

Spaces spaces_of(std::string_view token) {
  return {static_cast<uint32_t>(spaces_at(token, false)),
          static_cast<uint32_t>(spaces_at(token, true))};
}

// Offsets without the white space of their tokens.
void trim_offsets(std::span<const Spaces> spaces, bool has_prefix_space, Encoding& encoding) {
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    ByteRange& range = encoding.offsets[i];
    auto [leading, trailing] = spaces[i];
    if (leading == 1 && has_prefix_space && (i == 0 || range.begin == 0)) leading = 0;
    if (leading > 0) range.begin = std::min(range.begin + leading, range.end);
    if (trailing > 0 && range.end >= trailing) {
      range.end = std::max(range.end - trailing, range.begin);
    }
  }
}

}  // namespace

TokenEncoder::TokenEncoder(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      parts_(tokenizer.parts()),
      workspace_(parts_.model->make_workspace()) {}

std::string_view TokenEncoder::valid(std::string_view text) {
  require(text.size() < UINT32_MAX, "a text of {} bytes: cut it into parts below 4 GiB",
          text.size());
  if (valid_prefix(text) == text.size()) return text;
  valid_.clear();
  append_lossy(text, valid_);
  return valid_;
}

void TokenEncoder::encode(std::string_view text, bool add_special, std::vector<int32_t>& ids) {
  text = valid(text);
  const std::vector<PostProcessing::Part>& parts = parts_.post_processing.parts;
  if (parts.size() == 1 && parts.front().is_text) return encode_text(text, ids);
  text_ids_.clear();
  encode_text(text, text_ids_);
  for (const PostProcessing::Part& part : parts) {
    if (part.is_text) {
      ids.insert(ids.end(), text_ids_.begin(), text_ids_.end());
    } else if (add_special) {
      ids.insert(ids.end(), part.ids.begin(), part.ids.end());
    }
  }
}

void TokenEncoder::encode_text(std::string_view text, std::vector<int32_t>& ids) {
  if (!parts_.added.any_raw()) return encode_between(text, 0, ids);
  parts_.added.cut(text, false, cuts_);
  for (const AddedTokens::Cut& cut : cuts_) {
    if (cut.token) {
      ids.push_back(*cut.token);
    } else {
      encode_between(text.substr(cut.begin, cut.end - cut.begin), static_cast<uint32_t>(cut.begin),
                     ids);
    }
  }
}

// A text without tokens of the kind that is looked for in it as it is.
void TokenEncoder::encode_between(std::string_view text, uint32_t begin,
                                  std::vector<int32_t>& ids) {
  if (parts_.pre_tokenization.direct && !parts_.added.any_normalized()) {
    if (parts_.normalizer == nullptr || !parts_.normalizer->may_change(text)) {
      return split_directly(text, ids);
    }
    TextPiece piece = TextPiece::of_original(text, begin, false);
    parts_.normalizer->apply(piece);
    return split_directly(piece.text, ids);
  }
  std::vector<TextPiece> pieces = cut_pieces(text, begin, parts_.must_track);
  if (parts_.pre_tokenization.steps != nullptr) parts_.pre_tokenization.steps->apply(pieces);
  for (const TextPiece& piece : pieces) {
    if (piece.token) {
      ids.push_back(*piece.token);
    } else {
      parts_.model->encode(piece.text, *workspace_, ids);
    }
  }
}

void TokenEncoder::split_directly(std::string_view text, std::vector<int32_t>& ids) {
  const DirectSplit& direct = *parts_.pre_tokenization.direct;
  if (direct.add_prefix_space && !text.empty() && !text.starts_with(' ')) {
    prefixed_.assign(" ").append(text);
    text = prefixed_;
  }
  if (!direct.split) return parts_.model->encode(text, *workspace_, ids);
  parts_.model->encode_split(text, *direct.split, *workspace_, ids);
}

std::vector<TextPiece> TokenEncoder::cut_pieces(std::string_view text, uint32_t begin,
                                                bool tracked) {
  TextPiece whole = TextPiece::of_original(text, begin, tracked);
  if (parts_.normalizer != nullptr) parts_.normalizer->apply(whole);
  std::vector<TextPiece> pieces;
  if (!parts_.added.any_normalized()) {
    // It begins where what is left of it came from.
    whole.begin = whole.original_of(0, static_cast<uint32_t>(whole.text.size())).begin;
    if (!whole.text.empty()) pieces.push_back(std::move(whole));
    return pieces;
  }
  std::vector<AddedTokens::Cut> cuts;
  parts_.added.cut(whole.text, true, cuts);
  for (const AddedTokens::Cut& cut : cuts) {
    pieces.push_back(whole.slice(static_cast<uint32_t>(cut.begin), static_cast<uint32_t>(cut.end)));
    pieces.back().token = cut.token;
  }
  return pieces;
}

Encoding TokenEncoder::encode_with_offsets(std::string_view text, bool add_special) {
  text = valid(text);
  Encoding inner;
  parts_.added.cut(text, false, cuts_);
  std::vector<ModelToken> tokens;
  std::vector<Spaces> spaces;  // of an added token: in what it stands for, blanks that it takes too
  for (const AddedTokens::Cut& cut : cuts_) {
    const auto begin = static_cast<uint32_t>(cut.begin);
    if (cut.token) {
      spaces.push_back(spaces_of(text.substr(begin, cut.end - begin)));
      inner.ids.push_back(*cut.token);
      inner.offsets.push_back({begin, static_cast<uint32_t>(cut.end)});
      continue;
    }
    std::vector<TextPiece> pieces = cut_pieces(text.substr(begin, cut.end - begin), begin, true);
    if (parts_.pre_tokenization.steps != nullptr) parts_.pre_tokenization.steps->apply(pieces);
    for (const TextPiece& piece : pieces) {
      tokens.clear();
      if (piece.token) {
        tokens.push_back({*piece.token, static_cast<uint32_t>(piece.text.size())});
      } else {
        parts_.model->encode_with_bytes(piece.text, *workspace_, tokens);
      }
      uint32_t at = 0;
      for (const ModelToken& token : tokens) {
        spaces.push_back(spaces_of(piece.token ? piece.text : tokenizer_.token_of(token.id)));
        inner.ids.push_back(token.id);
        inner.offsets.push_back(token.bytes == 0 ? inner.offsets.back()
                                                 : piece.original_of(at, at + token.bytes));
        at += token.bytes;
      }
    }
  }
  count_characters(text, inner.offsets);
  for (const bool prefix_space : parts_.post_processing.trims) {
    trim_offsets(spaces, prefix_space, inner);
  }
  Encoding encoding;
  for (const PostProcessing::Part& part : parts_.post_processing.parts) {
    if (part.is_text) {
      encoding.ids.insert(encoding.ids.end(), inner.ids.begin(), inner.ids.end());
      encoding.offsets.insert(encoding.offsets.end(), inner.offsets.begin(), inner.offsets.end());
    } else if (add_special) {
      encoding.ids.insert(encoding.ids.end(), part.ids.begin(), part.ids.end());
      encoding.offsets.insert(encoding.offsets.end(), part.ids.size(), ByteRange{});
    }
  }
  return encoding;
}

}  // namespace tessera
