#include "compile/model/context.h"

namespace tessera {

SequenceRows held_rows(const RunSpec& spec, const Mesh& mesh, int rank) {
  return {spec.train.seq_len, mesh.size(Axis::kCp), mesh.coord(rank, Axis::kCp)};
}

}  // namespace tessera
