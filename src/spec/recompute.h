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

// Stages may differ: "full:2+none/none" is "full:2+none" for the first stage and "none" for all
// others, the last choice being for all stages that are left. Throws ConfigError, also where there
// are more choices than `stages`.
std::vector<std::vector<RecomputePart>> parse_stages_recompute(const std::string& text,
                                                               int64_t layers, int64_t stages);

// The text for one stage of the whole one.
std::string recompute_of_stage(const std::string& text, int64_t stage);

// The number of the part that is for block `block` of a stage.
size_t part_of_block(const std::vector<RecomputePart>& parts, int64_t block);

}  // namespace tessera
