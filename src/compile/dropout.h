// Which dropout mask an op of one rank draws.
#pragma once

#include "compile/step.h"

namespace tessera {

// Fills the dropout fields of `args` for a node that drops something; leaves others alone.
void set_dropout(const StepGraph& step, const Node& node, int rank, int64_t micro_batch,
                 KernelArgs& args);

}  // namespace tessera
