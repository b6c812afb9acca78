// A unit of text into tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "data/prepare/byte_buffer.h"
#include "data/prepare/work_unit.h"
#include "data/set/token_type.h"
#include "data/tokenizer/encoder.h"

namespace tessera {

struct EncodeOptions {
  std::string key = "text";          // of JSON lines
  std::string separator;             // between documents of text; empty: none
  int32_t end_token = -1;            // that ends a document
  bool add_special = true;           // what the tokenizer puts around a text
  double valid = 0;                  // share of the documents that are set apart
  uint64_t seed = 1;                 // which of them
  TokenType type = TokenType::kU32;  // in which ids are written
  UnitLimits limits;
};

// Is the document one of those that are set apart? Depends on its text and the seed alone.
bool is_for_validation(uint64_t document_hash, double share, uint64_t seed);

// What a unit adds to a set. Made where there are many threads, so that who writes has little to
// do.
struct EncodedTokens {
  ByteBuffer tokens;           // as they are written
  std::vector<uint32_t> ends;  // of documents, in tokens of the unit
  uint32_t crc32 = 0;          // of the tokens
  int32_t largest_id = 0;
};

struct BadLine {
  int64_t line = 0;  // of the unit, from 0
  std::string what;
};

struct EncodedUnit {
  std::array<EncodedTokens, 2> sets;  // to train on, and for validation
  std::vector<BadLine> bad;           // lines that were left out
  int64_t num_lines = 0;              // of JSON
  int64_t num_empty = 0;              // documents without text, left out too
  std::exception_ptr failure = {};    // it could not be read or encoded at all
};

// Makes `encoded` anew, in the memory that it has. `room_for` is asked before that grows, with the
// bytes that all tokens of the unit will take; it may wait.
void encode_unit(const WorkUnit& unit, const EncodeOptions& options, TokenEncoder& encoder,
                 const std::function<void(size_t)>& room_for, EncodedUnit& encoded);

}  // namespace tessera
