// What can be written down as programs: beyond it a description is no mistake of its parts, but no
// memory holds it.
#pragma once

#include "spec/run_spec.h"

namespace tessera {

// Blocks of the graph, and blocks times micro-batches that the programs of all ranks go through.
inline constexpr int64_t kMaxBlocks = 20'000;
inline constexpr int64_t kMaxBlockPasses = int64_t{1} << 21;

// ConfigError with the number and what makes it smaller. `spec` must have gone through resolve().
void require_writable_graph(const RunSpec& spec);
void require_writable_programs(const RunSpec& spec);

}  // namespace tessera
