// How context parallelism deals the tokens of a sequence to ranks.
#pragma once

#include "base/sequence_rows.h"
#include "graph/mesh.h"
#include "spec/run_spec.h"

namespace tessera {

// The rows of this rank's token buffers.
SequenceRows held_rows(const RunSpec& spec, const Mesh& mesh, int rank);
// The rows of the queries of its attention: with "ulysses" those of all ranks.
SequenceRows attending_rows(const RunSpec& spec, const Mesh& mesh, int rank);

}  // namespace tessera
