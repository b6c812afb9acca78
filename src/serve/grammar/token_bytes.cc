#include "serve/grammar/token_bytes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "data/tokenizer/common/byte_alphabet.h"
#include "data/tokenizer/steps/decoder.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_parts.h"

namespace tessera::serve {
namespace {

// Longer ones are long runs of blanks or dashes: no answer needs them.
constexpr size_t kMostTokenBytes = 1024;

// What stands before a token, so that it is not the first.
constexpr std::string_view kBefore = "a";

std::string bytes_inside_a_text(const TokenizerParts& parts, std::string_view token) {
  if (parts.decoder == nullptr) return " " + std::string(token);
  if (parts.decoder->is_byte_level()) {
    return tessera::bytes_of(token).value_or(std::string(token));
  }
  if (const auto byte = parts.decoder->byte_of(token)) return std::string(1, *byte);
  std::vector<std::string> texts = {std::string(kBefore), std::string(token)};
  parts.decoder->apply(texts);
  std::string all;
  for (const std::string& text : texts) all += text;
  // A decoder that changes what stands before it: nobody can say what the token writes.
  return all.starts_with(kBefore) ? all.substr(kBefore.size()) : "";
}

size_t common_start(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  size_t at = 0;
  while (at < most && a[at] == b[at]) ++at;
  return at;
}

}  // namespace

std::shared_ptr<const TokenBytes> TokenBytes::of(const Tokenizer& tokenizer) {
  std::vector<std::string> bytes(static_cast<size_t>(tokenizer.vocab_size()));
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view token = tokenizer.text_of(id);
    if (token.empty() || tokenizer.is_special(id)) continue;
    bytes[static_cast<size_t>(id)] = bytes_inside_a_text(tokenizer.parts(), token);
  }
  return std::make_shared<const TokenBytes>(std::move(bytes));
}

std::shared_ptr<const TokenBytes> TokenBytes::single_bytes() {
  std::vector<std::string> bytes(256);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::string(1, static_cast<char>(i));
  return std::make_shared<const TokenBytes>(std::move(bytes));
}

TokenBytes::TokenBytes(std::vector<std::string> bytes) : bytes_(std::move(bytes)) {
  std::vector<int32_t> order;
  for (int32_t id = 0; id < size(); ++id) {
    std::string& text = bytes_[static_cast<size_t>(id)];
    if (text.size() > kMostTokenBytes) text.clear();
    if (!text.empty()) order.push_back(id);
  }
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const int less = bytes_of(a).compare(bytes_of(b));
    return less != 0 ? less < 0 : a < b;
  });
  std::string_view last;
  std::vector<uint32_t> open;  // the nodes of the last token
  const auto close_to = [&](size_t depth) {
    while (open.size() > depth) {
      nodes_[open.back()].skip = static_cast<uint32_t>(nodes_.size());
      open.pop_back();
    }
  };
  for (const int32_t id : order) {
    const std::string_view text = bytes_of(id);
    close_to(common_start(last, text));
    for (size_t at = open.size(); at < text.size(); ++at) {
      open.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({.first_token = static_cast<uint32_t>(tokens_.size()),
                        .depth = static_cast<uint16_t>(at + 1),
                        .byte = static_cast<uint8_t>(text[at])});
    }
    tokens_.push_back(id);
    longest_ = std::max(longest_, static_cast<uint32_t>(text.size()));
    last = text;
  }
  close_to(0);
  nodes_.push_back({.skip = static_cast<uint32_t>(nodes_.size()) + 1,
                    .first_token = static_cast<uint32_t>(tokens_.size())});
}

std::string_view TokenBytes::bytes_of(int32_t token) const {
  if (token < 0 || token >= size()) return {};
  return bytes_[static_cast<size_t>(token)];
}

}  // namespace tessera::serve
