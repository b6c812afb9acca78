// A unit of text into tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "data/prepare/work_unit.h"
#include "data/set/token_type.h"
#include "data/tokenizer/encoder.h"

namespace tessera {

struct EncodeOptions {
  std::string key = "text";          // of JSON lines
  int32_t end_token = -1;            // that ends a document
  bool add_special = true;           // what the tokenizer puts around a text
  double valid = 0;                  // share of the documents that are set apart
  uint64_t seed = 1;                 // which of them
  TokenType type = TokenType::kU32;  // in which ids are written
};

// Is the document one of those that are set apart? Depends on its text and the seed alone.
bool is_for_validation(uint64_t document_hash, double share, uint64_t seed);

// Tokens of a document, or of a part of one.
struct EncodedPiece {
  size_t end = 0;  // of the unit's tokens; it begins where the one before it ends
  bool ends_document = true;
  bool for_validation = false;
  int32_t largest_id = 0;
};

struct BadLine {
  int64_t line = 0;
  std::string what;
};

struct EncodedUnit {
  int64_t number = 0;
  InputPlace from, to;
  int64_t packed_bytes = 0;
  int64_t text_bytes = 0;
  std::vector<std::byte> tokens;  // as they are written; done here, where there are many threads
  std::vector<EncodedPiece> pieces;
  std::vector<BadLine> bad;         // lines that were left out
  int64_t num_empty = 0;            // documents without text, left out too
  std::exception_ptr failure = {};  // it could not be read at all
};

EncodedUnit encode_unit(const WorkUnit& unit, const EncodeOptions& options, TokenEncoder& encoder);

}  // namespace tessera
