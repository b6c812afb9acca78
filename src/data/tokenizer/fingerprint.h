// Which tokenizer made some tokens.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tessera {

// 16 digits that depend on all of a tokenizer.json that decides about ids: not on the order of its
// keys, its white space, how merges are written, truncation or padding.
std::string tokenizer_fingerprint(const nlohmann::json& document);

}  // namespace tessera
