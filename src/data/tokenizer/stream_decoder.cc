#include "data/tokenizer/stream_decoder.h"

#include <span>
#include <utility>

#include "data/tokenizer/common/byte_alphabet.h"
#include "data/tokenizer/tokenizer_parts.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

// A character is four bytes at most; one more id tells whether they are one.
constexpr size_t kMostHeld = 5;

size_t common_prefix(std::string_view a, std::string_view b) {
  size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  while (at > 0 && at < b.size() && is_continuation(b[at])) --at;
  return at;
}

}  // namespace

std::string StreamDecoder::push_bytes(std::string_view token) {
  bytes_ += bytes_of(token).value_or(std::string(token));
  std::string text;
  std::string rest;
  append_lossy(bytes_, text, &rest);
  bytes_ = std::move(rest);
  return text;
}

std::string StreamDecoder::unseen() const {
  const std::span<const int32_t> ids = ids_;
  const std::string before = tokenizer_.decode(ids.first(num_shown_), skip_special_);
  const std::string all = tokenizer_.decode(ids, skip_special_);
  return all.substr(common_prefix(before, all));
}

// The ids so far are shown; those of the last part stay, because what follows may depend on them.
void StreamDecoder::accept() {
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<ptrdiff_t>(num_shown_));
  num_shown_ = ids_.size();
}

// A character may be several tokens of one byte. decode() shows none of a run of them where one is
// broken; what was shown stays here.
std::string StreamDecoder::push_fallback(int32_t id, char byte) {
  std::string text;
  bytes_ += byte;
  ids_.push_back(id);
  if (valid_prefix(bytes_) == bytes_.size()) {
    bytes_.clear();
    text = unseen();
    accept();
    return text;
  }
  if (broken_character(bytes_).cut_off) return "";
  bytes_.pop_back();
  ids_.pop_back();
  const bool alone = bytes_.empty();
  if (alone) bytes_ += byte;
  text = drop_fallback();
  return alone ? text : text + push_fallback(id, byte);
}

std::string StreamDecoder::drop_fallback() {
  std::string text;
  for (size_t i = 0; i < bytes_.size(); ++i) text += kReplacementCharacter;
  bytes_.clear();
  // Broken bytes would break those that follow; a letter goes before what comes instead.
  const int32_t letter = tokenizer_.id_of("<0x41>");
  ids_.clear();
  if (letter >= 0) ids_.push_back(letter);
  num_shown_ = ids_.size();
  return text;
}

std::string StreamDecoder::push(int32_t id) {
  const TokenizerParts& parts = tokenizer_.parts();
  const std::string_view token = tokenizer_.text_of(id);
  if (token.empty() || (skip_special_ && parts.added.is_special(token))) return "";
  if (parts.decoder != nullptr && parts.decoder->is_byte_level()) return push_bytes(token);
  std::string text;
  if (parts.decoder != nullptr) {
    if (const auto byte = parts.decoder->byte_of(token)) return push_fallback(id, *byte);
    if (!bytes_.empty()) text = drop_fallback();
  }
  ids_.push_back(id);
  text += unseen();
  const bool may_change = parts.decoder != nullptr && parts.decoder->cuts_characters() &&
                          text.ends_with(kReplacementCharacter);
  if ((text.empty() || may_change) && ids_.size() - num_shown_ < kMostHeld) return "";
  accept();
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  const auto& decoder = tokenizer_.parts().decoder;
  if (decoder != nullptr && !decoder->is_byte_level() && !bytes_.empty()) text = drop_fallback();
  append_lossy(bytes_, text);
  if (ids_.size() > num_shown_) text += unseen();
  bytes_.clear();
  ids_.clear();
  num_shown_ = 0;
  return text;
}

}  // namespace tessera
