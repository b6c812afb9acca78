// What tokenizer.json calls the normalizer: changes of the text before it is split.
#pragma once

#include <memory>

#include "data/tokenizer/common/json_reader.h"
#include "data/tokenizer/common/piece.h"

namespace tessera {

// Immutable; any thread may use it.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(TextPiece& piece) const = 0;
  // False: apply() would leave the text as it is. May be true where it would as well.
  [[nodiscard]] virtual bool may_change(std::string_view text) const = 0;
};

// Null for null. Throws ConfigError for an unknown type, naming it.
std::unique_ptr<const Normalizer> read_normalizer(const JsonPlace& place);

}  // namespace tessera
