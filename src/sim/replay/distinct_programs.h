// Programs of a run without lowering every rank: replicas (ranks that differ on dp and fsdp only)
// run the same instructions on other samples and other shards of the same size, so they share one.
#pragma once

#include "compile/step.h"
#include "sim/replay/rank_classes.h"

namespace tessera {

RankPrograms distinct_programs(const StepGraph& step);

}  // namespace tessera
