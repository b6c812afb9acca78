// Models that can be described and planned, but that no program of ours computes.
#pragma once

#include <string>

#include "spec/run_spec.h"

namespace tessera {

// The first choice of the model that cannot be trained, as "model.kv_rank = 512 (latent
// attention)"; empty: all can.
std::string untrainable_choice(const ModelSpec& model);

// ConfigError that names it, and what works instead.
void require_trainable(const ModelSpec& model);

}  // namespace tessera
