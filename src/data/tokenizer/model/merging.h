// The merges of byte-pair encoding, in time n log n at most.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokenizer/model/model.h"
#include "data/tokenizer/model/pair_table.h"

namespace tessera {

struct MergeWorkspace {
  struct Node {
    int32_t id = 0;
    uint32_t bytes = 0;  // 0: joined with the one before it
    int32_t previous = -1;
    int32_t next = -1;
  };
  struct Candidate {
    uint32_t rank = 0;
    int32_t at = 0;  // of the left one
    int32_t id = 0;  // what the pair becomes
  };
  std::vector<Node> nodes;
  std::vector<Candidate> heap;
  std::vector<Merge> pairs;
  std::vector<ModelToken> done, window;  // of a long piece (merge_windows.h)
};

// Joins neighbours until no pair is in the table: the lowest rank first, the leftmost of equals.
void merge_all(const PairTable& merges, MergeWorkspace& workspace,
               std::vector<ModelToken>& symbols);

}  // namespace tessera
