// The shape of a step of serving: a flat list of tokens of any sequences, whose keys and values lie
// in pages of a cache (graph/ops/serving.h). The shape is fixed, the contents of a step are free.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

struct ServeStep {
  int64_t tokens = 0;              // T, with padding
  int64_t rows = 0;                // R, whose logits are wanted
  int64_t sequences = 0;           // N
  int64_t pages_per_sequence = 0;  // P
  int64_t page_size = 16;          // tokens
  int64_t num_pages = 0;           // of the cache
};

}  // namespace tessera
