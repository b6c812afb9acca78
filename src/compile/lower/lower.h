// From the finished graph to the Program of one rank.
#pragma once

#include "compile/lower/step_graph.h"
#include "compile/program/program.h"

namespace tessera {

// Storage, instructions, events, arena offsets, checked.
Program lower(const StepGraph& step, int rank);

}  // namespace tessera
