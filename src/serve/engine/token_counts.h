// Which tokens a text has, and how often its answer has them: what penalties are taken for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "serve/sampling.h"

namespace tessera::serve {

class TokenCounts {
 public:
  void add_prompt(std::span<const int32_t> prompt) {
    for (const int32_t token : prompt) (void)place_of(token);
  }
  void add(int32_t token) { ++counts_[place_of(token)].in_answer; }
  [[nodiscard]] const std::vector<TokenCount>& all() const { return counts_; }

 private:
  size_t place_of(int32_t token) {
    const auto [place, is_new] = places_.emplace(token, counts_.size());
    if (is_new) counts_.push_back({.token = token, .in_answer = 0});
    return place->second;
  }
  std::vector<TokenCount> counts_;
  std::unordered_map<int32_t, size_t> places_;
};

}  // namespace tessera::serve
