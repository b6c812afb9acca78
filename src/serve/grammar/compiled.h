// A compiled schema, and the masks that texts of it have needed so far.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "serve/grammar/grammar.h"
#include "serve/grammar/masks.h"
#include "serve/grammar/rules.h"

namespace tessera::serve {

class CompiledGrammar {
 public:
  CompiledGrammar(grammar::Rules rules, int64_t cached_bytes)
      : rules_(std::move(rules)), cached_bytes_(cached_bytes) {}

  [[nodiscard]] const grammar::Rules& rules() const { return rules_; }
  // Those for a vocabulary; made when first asked for, and kept as long as somebody has them, or as
  // its vocabulary is the last one that was asked for. They keep the vocabulary.
  [[nodiscard]] std::shared_ptr<grammar::LocalMasks> masks_of(
      const std::shared_ptr<const TokenBytes>& tokens) const;

 private:
  grammar::Rules rules_;
  int64_t cached_bytes_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const TokenBytes> tokens_;
  mutable std::shared_ptr<grammar::LocalMasks> masks_;
};

}  // namespace tessera::serve
