// From a run description to the differentiated, rewritten graph, and from there to the Program of
// each rank. Pure: same input, same output; no files, clocks or threads.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compile/lower/lower.h"
#include "compile/program/check_program.h"

namespace tessera {

enum class StepKind { kTraining, kForward };

// Called with the graph after each pass, before it is checked: tests plant mistakes here.
using PassHook = std::function<void(const std::string& pass, Graph& graph)>;

// `spec` must have gone through resolve().
StepGraph build_step(const RunSpec& spec, StepKind kind, const PassHook& hook = {});

// Every rank's Program; also checks that collectives match across ranks.
std::vector<Program> compile_ranks(const StepGraph& step);

}  // namespace tessera
