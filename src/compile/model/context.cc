#include "compile/model/context.h"

namespace tessera {

SequenceRows held_rows(const RunSpec& spec, const Mesh& mesh, int rank) {
  return {spec.train.seq_len, mesh.size(Axis::kCp), mesh.coord(rank, Axis::kCp)};
}

SequenceRows attending_rows(const RunSpec& spec, const Mesh& mesh, int rank) {
  SequenceRows rows = held_rows(spec, mesh, rank);
  if (rows.parts > 1 && spec.parallel.cp_kind == ContextKind::kUlysses) {
    rows.part = SequenceRows::kAllParts;
  }
  return rows;
}

}  // namespace tessera
