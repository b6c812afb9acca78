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

// The same with so many chunks of the loss, and the graph that they are made from: a node of it
// takes about as long as four instructions.
double estimated_work(const RunSpec& spec, double places, int64_t loss_chunks);

// What a request may take: so many are compiled in a few seconds and in some hundred MiB.
inline constexpr double kMostPlannedInstructions = 1 << 17;  // of all ranks of a plan
inline constexpr double kMostTemplateWork = 3 << 19;         // of all templates of a request
inline constexpr double kMostWholeWork = 1 << 20;            // where templates do not do
inline constexpr double kMostSimulatedWork = 5 << 18;        // of ranks that differ

// Ranks of cp that share their Program but for positions take the same time, as long as causal
// attention is all that tells queries apart: their chunks of a sequence have as much to look at.
bool cp_ranks_do_the_same(const RunSpec& spec);

// Why a step cannot be simulated instruction by instruction: it has too many, or attention too
// large to count. Empty: it can.
std::string why_not_simulatable(const RunSpec& spec);
// ConfigError with that.
void require_simulatable(const RunSpec& spec);

// ConfigError with the number and what makes it smaller. `spec` must have gone through resolve().
void require_writable_graph(const RunSpec& spec);
void require_writable_programs(const RunSpec& spec);

}  // namespace tessera
