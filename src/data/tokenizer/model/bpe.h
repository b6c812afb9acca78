// Byte-pair encoding: a piece begins as characters (or bytes); the pair whose merge comes first in
// the list is joined, the leftmost of equals, until no pair is in the list.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data/tokenizer/model/model.h"
#include "data/tokenizer/model/model_lists.h"

namespace tessera {

struct BpeOptions {
  const ModelLists& lists;                    // the first merge is the first to be made
  std::optional<std::string> unk_token = {};  // for characters that are not in the vocabulary
  bool fuse_unk = false;                      // one for a run of them
  bool byte_fallback = false;  // <0xXX> for each of their bytes, where all are tokens
  bool ignore_merges = false;  // a piece that is a token becomes it without merges
  // Pieces are given as bytes, and tokens are written in the byte alphabet (byte_alphabet.h).
  bool raw_bytes = false;
};

// Throws ConfigError for a merge of, or into, what is no token, with its number.
std::unique_ptr<TokenModel> make_bpe(const BpeOptions& options);

}  // namespace tessera
