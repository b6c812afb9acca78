// Every rank's Program of a run.
#pragma once

#include <vector>

#include "compile/step.h"

namespace tessera {

struct CompiledRun {
  StepGraph step;
  std::vector<Program> programs;  // one per rank
};

// `spec` must have gone through resolve(), with its device, threads and memory filled in. Pure.
CompiledRun compile_run(const RunSpec& spec);

// A larger run takes longer to compile rank by rank than anybody waits; quickly: than anybody
// notices.
bool can_compile_every_rank(const RunSpec& spec);
bool can_compile_quickly(const RunSpec& spec);

}  // namespace tessera
