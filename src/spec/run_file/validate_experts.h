// What a mixture of experts asks of a run description; part of resolve().
#pragma once

#include "spec/run_spec.h"

namespace tessera {

// Fills in moe_ffn; refuses experts without their family and the other way round.
void resolve_expert_model(ModelSpec& model);

// What ep takes: tp and cp whole, and a divisor of fsdp.
struct ExpertSplit {
  bool tp = false, cp = false;
  int64_t fsdp = 1;
};
// tp when there is one, then cp if it divides the rest, then of fsdp. ConfigError when ep is no
// such product.
ExpertSplit expert_split(const ParallelSpec& parallel);

// Checks a resolved model and batch. Throws ConfigError with the reason and the nearest valid
// choice.
void check_experts(const RunSpec& spec);

}  // namespace tessera
