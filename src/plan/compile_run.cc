#include "plan/compile_run.h"

#include "spec/run_file/validate.h"

namespace tessera {
namespace {

// Layers times micro-batches times ranks that are compiled one by one.
constexpr double kMostCompiledCells = 1 << 17;
constexpr double kMostQuickCells = 1 << 11;

double compiled_cells(const RunSpec& spec) {
  return static_cast<double>(spec.model.layers) * static_cast<double>(accumulation(spec)) *
         static_cast<double>(spec.parallel.world());
}

}  // namespace

CompiledRun compile_run(const RunSpec& spec) {
  CompiledRun run;
  run.step = build_step(spec, StepKind::kTraining);
  run.programs = compile_ranks(run.step);
  return run;
}

bool can_compile_every_rank(const RunSpec& spec) {
  return compiled_cells(spec) <= kMostCompiledCells;
}

bool can_compile_quickly(const RunSpec& spec) { return compiled_cells(spec) <= kMostQuickCells; }

}  // namespace tessera
