// Programs of a run without lowering every rank: replicas (ranks that differ on dp and fsdp only)
// run the same instructions on other samples and other shards of the same size, so they share one.
// So do ranks of tp from the second on, over other columns; the first also counts the gradients of
// what tp does not split. Ranks of cp share one where their chunks of a sequence take the same
// time.
#pragma once

#include "compile/step.h"
#include "sim/replay/rank_classes.h"

namespace tessera {

RankPrograms distinct_programs(const StepGraph& step);

}  // namespace tessera
