#include "cost/formulas/activations.h"

namespace tessera {

double stream_bytes(const BlockShape& s, double element) {
  return s.seq / s.cp * s.batch * s.hidden * element;
}

double block_bytes(const BlockShape& s, Kept kept, bool sequence_parallel) {
  const double stream = stream_bytes(s, 1);
  if (kept == Kept::kFull) return 2 * stream / (sequence_parallel ? s.tp : 1);
  const double core = kept == Kept::kAll ? 5 * s.heads * s.seq / s.hidden / s.tp : 0;
  if (sequence_parallel) return stream * (34 / s.tp + core);
  return stream * (10 + 24 / s.tp + core);
}

// Forward FLOPs of a token in one block: 24 h^2 of products and 4 s h of the core, all pairs
// counted; a step has three times as many.
double extra_flops(const BlockShape& s, Kept kept) {
  if (kept == Kept::kAll) return 0;
  if (kept == Kept::kFull) return 1.0 / 3;
  const double core = 4 * s.seq * s.hidden;
  return core / (3 * (24 * s.hidden * s.hidden + core));
}

}  // namespace tessera
