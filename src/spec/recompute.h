// The values of parallel.recompute.
#pragma once

#include <cstdint>
#include <string>

#include "spec/run_spec.h"

namespace tessera {

struct RecomputeChoice {
  // Whose values are computed again.
  bool norms = false, activations = false, attention = false;
  int64_t blocks = 0;  // so many blocks in a row keep one input; 0: all values are kept
};

// "none", "norms", "light", "selective", "full", "every-K" with K from 1 to `layers`. Throws
// ConfigError.
RecomputeChoice parse_recompute(const std::string& text, int64_t layers);

}  // namespace tessera
