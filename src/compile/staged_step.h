// build_step for stages that are not those of parallel.schedule: templates of single stages.
#pragma once

#include "compile/step.h"

namespace tessera {

// `stages` goes with spec.model.layers, spec.parallel.pp and the micro-batches of `spec`.
StepGraph build_staged_step(const RunSpec& spec, StageLayout stages, StepKind kind,
                            const PassHook& hook = {}, const PassTimer& timer = {});

// The same for a step of training, with at most so many chunks of the loss
// (compile/model/loss_chunks.h).
StepGraph build_template_step(const RunSpec& spec, StageLayout stages, int64_t most_loss_chunks);

}  // namespace tessera
