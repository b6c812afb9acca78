// What a mixture of experts asks of a run description; part of resolve().
#pragma once

#include "spec/run_spec.h"

namespace tessera {

// Fills in moe_ffn; refuses experts without their family and the other way round.
void resolve_expert_model(ModelSpec& model);

// The axes that ep takes, each of them whole.
struct ExpertSplit {
  bool tp = false, cp = false, fsdp = false;
};
// tp when there is one, then cp if that makes it fit, then fsdp. ConfigError when ep is no such
// product.
ExpertSplit expert_split(const ParallelSpec& parallel);

// Of a resolved model and batch. Throws ConfigError with the reason and the nearest valid choice.
void check_experts(const RunSpec& spec);

}  // namespace tessera
