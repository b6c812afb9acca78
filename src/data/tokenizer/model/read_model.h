// The model of tokenizer.json.
#pragma once

#include <memory>

#include "data/tokenizer/common/json_reader.h"
#include "data/tokenizer/model/model.h"
#include "data/tokenizer/model/model_lists.h"

namespace tessera {

// Whether the model can be given bytes instead of characters of the byte alphabet.
bool model_takes_bytes(const JsonPlace& place);
// Throws ConfigError for a type other than BPE and Unigram, naming it, for dropout, for prefixes
// and suffixes of words.
// `lists`: null, or what stands for "vocab" and "merges".
std::unique_ptr<const TokenModel> read_model(const JsonPlace& place, bool raw_bytes,
                                             const ModelLists* lists);

}  // namespace tessera
