// set.json, which makes a folder of tokens a set (docs/data.md). It is written last: a folder
// without it was not finished.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/set/token_type.h"

namespace tessera {

inline constexpr const char* kSetFile = "set.json";
inline constexpr const char* kTokensFile = "tokens.bin";
inline constexpr const char* kDocumentsFile = "documents.bin";  // u64: where each one ends

struct SetDescription {
  TokenType type = TokenType::kU16;
  int64_t tokens = 0;
  int64_t documents = 0;
  int64_t vocab_size = 0;
  int64_t largest_id = 0;
  int64_t end_token = -1;                           // that stands after each document
  std::string tokenizer;                            // its fingerprint (data/tokenizer/tokenizer.h)
  std::vector<uint32_t> token_sums, document_sums;  // of blocks of kSumBlockBytes
};

// The text of the file, with a checksum of itself.
std::string to_text(const SetDescription& set);
// Throws ConfigError "NAME: ..." for what is damaged, contradicts itself or is of a newer version.
SetDescription parse_set_description(std::string_view text, const std::string& name);

}  // namespace tessera
