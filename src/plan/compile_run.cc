#include "plan/compile_run.h"

#include "compile/model/limits.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

// Layers times micro-batches times ranks, whatever their instructions are up to some number.
constexpr double kMostQuickCells = 1 << 11;
constexpr double kMostQuickInstructions = 1 << 19;

double instructions_of_every_rank(const RunSpec& spec) {
  return estimated_instructions(
      spec, static_cast<double>(spec.parallel.world()) / static_cast<double>(spec.parallel.pp));
}

}  // namespace

CompiledRun compile_run(const RunSpec& spec) {
  CompiledRun run;
  run.step = build_step(spec, StepKind::kTraining);
  run.programs = compile_ranks(run.step);
  return run;
}

bool can_compile_every_rank(const RunSpec& spec) {
  return instructions_of_every_rank(spec) <= kMostPlannedInstructions;
}

bool can_compile_quickly(const RunSpec& spec) {
  const double cells = static_cast<double>(spec.model.layers) *
                       static_cast<double>(accumulation(spec)) *
                       static_cast<double>(spec.parallel.world());
  return cells <= kMostQuickCells && instructions_of_every_rank(spec) <= kMostQuickInstructions;
}

}  // namespace tessera
