// Fills derived fields (kv_heads, head_dim, zero, global_batch) and refuses impossible
// combinations with ConfigError: the value, the reason and the nearest valid choice.
#pragma once

#include "spec/run_spec.h"

namespace tessera {

void resolve(RunSpec& spec);

// Throws unless the mesh has exactly `ranks` ranks; suggests the nearest meshes that do.
// With `heads`, only those whose tp divides them. `source` says where the number comes from.
void require_world(const ParallelSpec& parallel, int64_t ranks, int64_t heads = 0,
                   const std::string& source = "--ranks is");

// Micro-batches per optimizer step of the replica that has most.
int64_t accumulation(const RunSpec& spec);

}  // namespace tessera
