#include "data/tokenizer/stream_decoder.h"

#include <span>
#include <utility>

#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/tokenizer_parts.h"
#include "data/tokenizer/unicode.h"

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

std::string StreamDecoder::push(int32_t id) {
  const TokenizerParts& parts = tokenizer_.parts();
  const std::string_view token = tokenizer_.text_of(id);
  if (token.empty() || (skip_special_ && parts.added.is_special(token))) return "";
  if (parts.decoder != nullptr && parts.decoder->is_byte_level()) return push_bytes(token);
  ids_.push_back(id);
  std::string text = unseen();
  const bool is_whole = !text.empty() && !text.ends_with(kReplacementCharacter);
  if (!is_whole && ids_.size() - num_shown_ < kMostHeld) return "";
  accept();
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  append_lossy(bytes_, text);
  if (ids_.size() > num_shown_) text += unseen();
  bytes_.clear();
  ids_.clear();
  num_shown_ = 0;
  return text;
}

}  // namespace tessera
