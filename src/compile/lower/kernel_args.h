// What a kernel must know about its place in the run: which dropout mask it draws, which tokens of
// which sequences it routes.
#pragma once

#include "compile/lower/step_graph.h"
#include "compile/program/program.h"

namespace tessera {

// Fills the dropout fields of `args` for a node that drops something; leaves others alone.
void set_dropout(const StepGraph& step, const Node& node, int rank, int64_t micro_batch,
                 KernelArgs& args);

// Empty for a node that is not part of a mixture of experts.
ExpertArgs expert_args(const StepGraph& step, const Node& node, int rank);

}  // namespace tessera
