// The values of parallel.recompute.
#pragma once

#include <cstdint>
#include <string>

#include "spec/run_spec.h"

namespace tessera {

struct RecomputeChoice {
  bool cheap = false;      // values of norms and activations are computed again
  bool attention = false;  // and those of attention
  int64_t blocks = 0;      // so many blocks in a row keep one input; 0: all values are kept
};

// "none", "light", "selective", "full", "every-K" with K from 1 to `layers`. Throws ConfigError.
RecomputeChoice parse_recompute(const std::string& text, int64_t layers);

}  // namespace tessera
