#include "serve/api/choice_text.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tessera::serve {

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

void TextPart::append(TextPart more) {
  text += more.text;
  std::move(more.tokens.begin(), more.tokens.end(), std::back_inserter(tokens));
  offsets.insert(offsets.end(), more.offsets.begin(), more.offsets.end());
}

void ChoiceText::go_on_from(std::span<const int32_t> prompt) {
  // More than a character that is cut into bytes has.
  constexpr size_t kEnough = 8;
  for (const int32_t token : prompt.last(std::min(prompt.size(), kEnough))) {
    static_cast<void>(decoder_->push(token));
  }
}

void ChoiceText::begin_with(TextPart part) {
  characters_ += count_characters(part.text);
  first_.append(std::move(part));
}

TextPart ChoiceText::push(SampledToken token) {
  if (stopped()) return {};
  ++num_tokens_;
  const std::string text = decoder_->push(token.token);
  if (keep_tokens_) waiting_.push_back({std::move(token), decoded_});
  decoded_ += text.size();
  return take(stops_.push(text), false);
}

TextPart ChoiceText::finish() {
  if (stopped()) return {};
  std::string certain = stops_.push(decoder_->finish());
  if (!stopped()) certain += stops_.finish();
  return take(std::move(certain), !stopped());
}

TextPart ChoiceText::take(std::string certain, bool last) {
  shown_ += certain.size();
  TextPart part = std::exchange(first_, {});
  if (keep_tokens_) {
    uncounted_ += certain;
    size_t ready = 0;
    for (const Waiting& one : waiting_) {
      if (has_text_ && one.begin >= shown_ && !last) break;
      const size_t behind = std::min(one.begin - uncounted_begin_, uncounted_.size());
      characters_ += count_characters(std::string_view(uncounted_).substr(0, behind));
      uncounted_.erase(0, behind);
      uncounted_begin_ += behind;
      part.tokens.push_back(one.token);
      part.offsets.push_back(characters_);
      ++ready;
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(ready));
  }
  part.text += certain;
  return part;
}

}  // namespace tessera::serve
