// How a pattern cuts a piece, and what becomes of the matches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/tokenizer/common/json_reader.h"
#include "data/tokenizer/common/piece.h"

namespace tessera {

// Splitting "a-b--c" at "-":
enum class SplitBehavior : uint8_t {
  kRemoved,             // a b c
  kIsolated,            // a - b - - c
  kMergedWithPrevious,  // a- b- - c
  kMergedWithNext,      // a -b - -c
  kContiguous,          // a - b -- c
};
SplitBehavior read_behavior(const JsonPlace& place);

// Appends the parts of `piece`.
void split_piece(const TextPiece& piece, std::span<const Part> parts, SplitBehavior behavior,
                 std::vector<TextPiece>& out);

}  // namespace tessera
