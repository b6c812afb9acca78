// What a mixture of experts asks of a run description; part of resolve().
#pragma once

#include "spec/run_spec.h"

namespace tessera {

// Fills in moe_ffn; refuses experts without their family and the other way round.
void resolve_expert_model(ModelSpec& model);

// Of a resolved model and batch. Throws ConfigError with the reason and the nearest valid choice.
void check_experts(const RunSpec& spec);

}  // namespace tessera
