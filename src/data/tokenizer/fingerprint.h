// Which tokenizer made some tokens.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/tokenizer/model/model_lists.h"

namespace tessera {

// 16 digits that depend on all of a tokenizer.json that decides about ids: not on the order of its
// keys, its white space, how merges are written, truncation or padding.
std::string tokenizer_fingerprint(const nlohmann::json& document);
// The same of a file whose lists were read apart: `document` is what is left of it.
std::string tokenizer_fingerprint(const nlohmann::json& document, const ModelLists& lists);

}  // namespace tessera
