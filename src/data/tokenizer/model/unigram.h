// A unigram model: every token has a score, and a piece becomes the tokens whose scores sum to
// most.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer/model/model.h"

namespace tessera {

struct UnigramOptions {
  std::vector<std::pair<std::string, double>> vocab;  // tokens and scores; the place is the id
  std::optional<int32_t> unk_id;                      // for characters that no token covers
  bool byte_fallback = false;                         // <0xXX> instead of it, where all are tokens
};

// Throws ConfigError for an unk_id that is no place of the vocabulary. Encoding throws Error for a
// character that no token covers where there is no unk_id.
std::unique_ptr<TokenModel> make_unigram(const UnigramOptions& options);

}  // namespace tessera
