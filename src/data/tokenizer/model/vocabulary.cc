#include "data/tokenizer/model/vocabulary.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {

Vocabulary::Vocabulary(const std::vector<std::pair<std::string, int32_t>>& tokens) {
  int32_t highest = -1;
  size_t bytes = 0;
  for (const auto& [token, id] : tokens) {
    if (id < 0 || id >= kMostTokens) {
      throw ConfigError(fmt::format("token {} has id {}: ids are whole numbers from 0 to {}",
                                    in_quotes(token), id, kMostTokens - 1));
    }
    highest = std::max(highest, id);
    bytes += token.size();
  }
  ids_.reserve(tokens.size(), bytes);
  tokens_.resize(static_cast<size_t>(highest + 1));
  for (const auto& [token, id] : tokens) {
    ids_.insert(token, id);
    tokens_[static_cast<size_t>(id)] = token;
  }
}

}  // namespace tessera
