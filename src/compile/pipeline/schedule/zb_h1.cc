#include "compile/pipeline/schedule/zero_bubble.h"

namespace tessera {

// ZB-H1 (Qi et al., 2023): the memory of 1F1B's first rank on every rank, a third of its bubble.
std::vector<StageAction> zb_h1_actions(const PipelineShape& shape, int rank) {
  return split_backward_actions(rank, shape.micro_batches, shape.ranks - 1 - rank, rank);
}

}  // namespace tessera
