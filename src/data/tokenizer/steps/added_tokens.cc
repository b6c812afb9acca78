#include "data/tokenizer/steps/added_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "data/tokenizer/common/string_table.h"
#include "data/tokenizer/model/vocabulary.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

constexpr size_t kLongestToken = 4096;  // bytes; finding takes so many steps for a byte at most

bool has_bit(uint32_t code, uint8_t bit) { return (character_table()[code] & bit) != 0; }

bool word_before(std::string_view text, size_t at) {
  return at > 0 && has_bit(code_point_at(text, start_of_last(text, at)).code, kWordBit);
}
bool word_after(std::string_view text, size_t at) {
  return at < text.size() && has_bit(code_point_at(text, at).code, kWordBit);
}

size_t without_spaces_before(std::string_view text, size_t at) {
  while (at > 0 && has_bit(code_point_at(text, start_of_last(text, at)).code, kSpaceBit)) {
    at = start_of_last(text, at);
  }
  return at;
}
size_t behind_spaces(std::string_view text, size_t at) {
  while (at < text.size() && has_bit(code_point_at(text, at).code, kSpaceBit)) {
    at += code_point_at(text, at).bytes;
  }
  return at;
}

AddedToken read_token(const JsonPlace& place) {
  AddedToken token;
  token.content = place.at("content").text();
  token.special = place.truth("special", false);
  token.normalized = place.truth("normalized", !token.special);
  token.single_word = place.truth("single_word", false);
  token.lstrip = place.truth("lstrip", false);
  token.rstrip = place.truth("rstrip", false);
  if (token.content.size() > kLongestToken) {
    place.fail(
        fmt::format("{} bytes, more than the {} of a token", token.content.size(), kLongestToken));
  }
  return token;
}

}  // namespace

void AddedTokenFinder::add(std::string_view text, size_t token) {
  if (text.empty()) return;
  trie_.insert(text, static_cast<int32_t>(token));
  begins_[static_cast<unsigned char>(text[0])] = true;
  lengths_.insert(text.size());
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::find(std::string_view text,
                                                              size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    std::optional<Match> longest;
    int32_t node = ByteTrie::kRoot;
    for (size_t end = at; end < text.size();) {
      node = trie_.child(node, text[end++]);
      if (node == ByteTrie::kNone) break;
      const int32_t token = trie_.value(node);
      if (token != ByteTrie::kNone) longest = Match{at, end, static_cast<size_t>(token)};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

AddedTokens AddedTokens::read(const JsonPlace& place, const TokenModel& model,
                              const Normalizer* normalizer) {
  AddedTokens added;
  std::map<int32_t, size_t> places;  // of an id in tokens_
  auto next = static_cast<int32_t>(model.vocab_size());
  for (const JsonPlace& item : place.items()) {
    AddedToken token = read_token(item);
    if (token.content.empty()) continue;
    const auto known = added.ids_.find(token.content);
    token.id = known != added.ids_.end() ? known->second : model.id_of(token.content);
    if (token.id == kNoToken) token.id = next++;
    if (token.id >= kMostTokens) item.fail(fmt::format("id {} is too large", token.id));
    added.ids_[token.content] = token.id;
    if (token.special) added.special_.insert(token.content);
    if (token.normalized && normalizer != nullptr) {
      TextPiece piece = TextPiece::of_original(token.content, 0, false);
      normalizer->apply(piece);
      if (piece.text != token.content) added.texts_[token.id] = piece.text;
    }
    const auto [found, is_new] = places.emplace(token.id, added.tokens_.size());
    if (is_new) {
      added.tokens_.push_back(std::move(token));
    } else {
      added.tokens_[found->second] = std::move(token);
    }
  }
  added.index();
  return added;
}

void AddedTokens::index() {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    const std::string& text = texts_.emplace(token.id, token.content).first->second;
    token.normalized ? normalized_.add(text, i) : raw_.add(token.content, i);
  }
}

std::optional<int32_t> AddedTokens::id_of(std::string_view content) const {
  const auto found = ids_.find(content);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* AddedTokens::text_of(int32_t id) const {
  const auto found = texts_.find(id);
  return found == texts_.end() ? nullptr : &found->second;
}

void AddedTokens::cut(std::string_view text, bool in_normalized, std::vector<Cut>& cuts) const {
  cuts.clear();
  const AddedTokenFinder& finder = in_normalized ? normalized_ : raw_;
  size_t covered = 0;
  size_t from = 0;
  while (!finder.empty()) {
    const auto match = finder.find(text, from);
    if (!match) break;
    from = match->end;
    const AddedToken& token = tokens_[match->token];
    if (token.single_word && (word_before(text, match->begin) || word_after(text, match->end))) {
      continue;
    }
    size_t begin = match->begin;
    size_t end = match->end;
    // White space may belong to the token before already.
    if (token.lstrip) begin = std::max(without_spaces_before(text, begin), covered);
    if (token.rstrip) end = behind_spaces(text, end);
    if (covered < begin) cuts.push_back({covered, begin, std::nullopt});
    // One of white space that the token before took is none.
    if (begin < end) cuts.push_back({begin, end, token.id});
    covered = end;
  }
  if (covered < text.size()) cuts.push_back({covered, text.size(), std::nullopt});
}

}  // namespace tessera
