// A unit of text into tokens.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "data/prepare/work_unit.h"
#include "data/tokenizer/encoder.h"

namespace tessera {

struct EncodeOptions {
  std::string key = "text";  // of JSON lines
  int32_t end_token = -1;    // that ends a document
  bool add_special = true;   // what the tokenizer puts around a text
  double valid = 0;          // share of the documents that are set apart
  uint64_t seed = 1;         // which of them
};

// Is the document one of those that are set apart? Depends on its text and the seed alone.
bool is_for_validation(uint64_t document_hash, double share, uint64_t seed);

// Tokens of a document, or of a part of one.
struct EncodedPiece {
  size_t end = 0;  // of the unit's ids; it begins where the one before it ends
  bool ends_document = true;
  bool for_validation = false;
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
  std::vector<int32_t> ids;
  std::vector<EncodedPiece> pieces;
  std::vector<BadLine> bad;         // lines that were left out
  int64_t num_empty = 0;            // documents without text, left out too
  std::exception_ptr failure = {};  // it could not be read at all
};

EncodedUnit encode_unit(const WorkUnit& unit, const EncodeOptions& options, TokenEncoder& encoder);

}  // namespace tessera
