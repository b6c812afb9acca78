// What can be written down as programs: beyond it a description is no mistake of its parts, but no
// memory holds it.
#pragma once

#include <string>

#include "spec/run_spec.h"

namespace tessera {

// Blocks of the graph, and blocks times micro-batches that the programs of all ranks go through.
inline constexpr int64_t kMaxBlocks = 20'000;
inline constexpr int64_t kMaxBlockPasses = int64_t{1} << 21;

// About how many instructions the Programs of `places` ranks of every pipeline stage have together:
// a few more than there are. From the sizes of the run alone, before anything is built.
double estimated_instructions(const RunSpec& spec, double places);

// What a request may take: so many are compiled in a few seconds and in some hundred MiB.
inline constexpr double kMostPlannedInstructions = 1 << 17;    // of all ranks of a plan
inline constexpr double kMostWholeInstructions = 1 << 19;      // where templates do not do
inline constexpr double kMostSimulatedInstructions = 1 << 20;  // of ranks that differ

// Why a step cannot be simulated instruction by instruction: it has too many, or attention too
// large to count. Empty: it can.
std::string why_not_simulatable(const RunSpec& spec);
// ConfigError with that.
void require_simulatable(const RunSpec& spec);

// ConfigError with the number and what makes it smaller. `spec` must have gone through resolve().
void require_writable_graph(const RunSpec& spec);
void require_writable_programs(const RunSpec& spec);

}  // namespace tessera
