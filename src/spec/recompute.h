// The values of parallel.recompute.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/run_spec.h"

namespace tessera {

struct RecomputeChoice {
  // Whose values are computed again.
  bool norms = false, activations = false, attention = false;
  int64_t blocks = 0;  // so many blocks in a row keep one input; 0: all values are kept
};

// The same choice for blocks of a stage that follow each other.
struct RecomputePart {
  RecomputeChoice choice;
  int64_t size = 0;  // blocks; of the last part: all that are left
};

// "none", "norms", "light", "selective", "full", "every-K" with K from 1 to `layers`; or several,
// each but the last with the number of blocks of a stage that it is for, as in "light:20+norms".
// Throws ConfigError.
std::vector<RecomputePart> parse_recompute(const std::string& text, int64_t layers);

// The number of the part that is for block `block` of a stage.
size_t part_of_block(const std::vector<RecomputePart>& parts, int64_t block);

}  // namespace tessera
