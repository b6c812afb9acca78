#include "compile/pipeline/schedule/zero_bubble.h"

namespace tessera {

// ZB-H2 (Qi et al., 2023): warm-up and lag twice those of ZB-H1 fill the time until the first
// gradient arrives and after the last one left. No rank is idle between its first and its last
// action; 2 * ranks - 1 micro-batches are alive on every rank.
std::vector<StageAction> zb_h2_actions(const PipelineShape& shape, int rank) {
  return split_backward_actions(rank, shape.micro_batches, 2 * (shape.ranks - 1 - rank), 2 * rank);
}

}  // namespace tessera
