// What tokenizer.json calls the pre-tokenizer: how a text is cut into pieces that the model sees
// one by one.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/tokenizer/common/json_reader.h"
#include "data/tokenizer/common/piece.h"
#include "data/tokenizer/pattern/known_split.h"

namespace tessera {

// Immutable; any thread may use it.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts every piece that is no token; empty ones are left out.
  virtual void apply(std::vector<TextPiece>& pieces) const = 0;
};

// A cut that needs no pieces in between: every text is split by a table, and the model gets bytes.
struct DirectSplit {
  std::optional<KnownSplit> split;  // none: a text is one piece
  bool add_prefix_space = false;    // before a text that does not begin with one
};

struct PreTokenization {
  std::unique_ptr<const PreTokenizer> steps;  // null: none
  // The last step writes bytes in the byte alphabet. It is left to the model, which knows the bytes
  // of its tokens: pieces keep their bytes.
  bool ends_in_bytes = false;
  std::optional<DirectSplit> direct;  // the same pieces, where that is all there is to it
};

// Throws ConfigError for an unknown type, naming it. `model_takes_bytes`: ends_in_bytes may be.
PreTokenization read_pre_tokenizer(const JsonPlace& place, bool model_takes_bytes);

}  // namespace tessera
