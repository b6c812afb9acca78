// Tokens and their ids, both ways.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer/common/string_table.h"

namespace tessera {

inline constexpr int32_t kMostTokens = 16'000'000;

class Vocabulary {
 public:
  // Throws ConfigError for an id that is negative or not below kMostTokens. Of two entries with the
  // same token or the same id, the last one counts.
  explicit Vocabulary(const std::vector<std::pair<std::string, int32_t>>& tokens);

  [[nodiscard]] size_t size() const { return ids_.size(); }
  [[nodiscard]] int32_t id_limit() const { return static_cast<int32_t>(tokens_.size()); }
  [[nodiscard]] int32_t id_of(std::string_view token) const { return ids_.find(token); }
  // Empty for an id without a token.
  [[nodiscard]] std::string_view token_of(int32_t id) const {
    const bool known = id >= 0 && static_cast<size_t>(id) < tokens_.size();
    return known ? std::string_view(tokens_[static_cast<size_t>(id)]) : std::string_view();
  }
  template <typename Visit>
  void for_each(const Visit& visit) const {
    ids_.for_each(visit);
  }

 private:
  StringTable ids_;
  std::vector<std::string> tokens_;
};

}  // namespace tessera
