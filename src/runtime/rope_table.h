// Angles of the rotary embedding, with Llama 3.1's stretched frequencies where asked for.
#pragma once

#include <vector>

#include "spec/run_spec.h"

namespace tessera {

// Radians per position, head_dim / 2 of them.
std::vector<double> rope_frequencies(const RopeSpec& rope, int64_t head_dim);

}  // namespace tessera
