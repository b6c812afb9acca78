// Tokens beside those of the model: found in the text before it is split, each with its habits.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/common/byte_trie.h"
#include "data/tokenizer/common/json_reader.h"
#include "data/tokenizer/common/piece.h"
#include "data/tokenizer/model/model.h"
#include "data/tokenizer/steps/normalizer.h"

namespace tessera {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;      // left out of decoded text, on request
  bool normalized = true;    // looked for in the normalized text, in its normalized form
  bool single_word = false;  // not next to a letter, digit or other word character
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
};

// Finds tokens of one kind (normalized or not) in a text.
class AddedTokenFinder {
 public:
  void add(std::string_view text, size_t token);
  [[nodiscard]] bool empty() const { return lengths_.empty(); }
  // The first match at or after `from`, the longest of those that begin there.
  struct Match {
    size_t begin = 0;
    size_t end = 0;
    size_t token = 0;
  };
  [[nodiscard]] std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  ByteTrie trie_;
  std::array<bool, 256> begins_{};  // bytes that a token begins with
  std::set<size_t> lengths_;
};

// Immutable once made; any thread may use it.
class AddedTokens {
 public:
  // The list "added_tokens". Ids follow the reference library: that of the same text in the model,
  // or the next free one after the model's.
  static AddedTokens read(const JsonPlace& place, const TokenModel& model,
                          const Normalizer* normalizer);

  [[nodiscard]] const std::vector<AddedToken>& tokens() const { return tokens_; }
  [[nodiscard]] bool any_normalized() const { return !normalized_.empty(); }
  [[nodiscard]] bool any_raw() const { return !raw_.empty(); }
  [[nodiscard]] std::optional<int32_t> id_of(std::string_view content) const;
  // As decoders see it: tokens that are normalized are, here too.
  [[nodiscard]] const std::string* text_of(int32_t id) const;
  [[nodiscard]] bool is_special(std::string_view text) const {
    return special_.contains(std::string(text));
  }

  // A part of a text, and the token that it is.
  struct Cut {
    size_t begin = 0;
    size_t end = 0;
    std::optional<int32_t> token;
  };
  // Cuts a text at the tokens that are looked for in it as it is, or in its normalized form.
  void cut(std::string_view text, bool in_normalized, std::vector<Cut>& cuts) const;

 private:
  void index();
  std::vector<AddedToken> tokens_;                   // one for each id: the last that has it
  std::map<std::string, int32_t, std::less<>> ids_;  // of every content
  AddedTokenFinder raw_;
  AddedTokenFinder normalized_;
  // By id, as it is looked for and decoded: the last one that normalizing changed, even where a
  // token of that id came later that is not normalized.
  std::map<int32_t, std::string> texts_;
  std::set<std::string> special_;
};

}  // namespace tessera
