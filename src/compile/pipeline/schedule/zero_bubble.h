// What ZB-H1 and ZB-H2 share: 1F1B whose weight gradients come later, in time that would be idle.
#pragma once

#include <vector>

#include "compile/pipeline/schedule/named_schedule.h"

namespace tessera {

// `warmup` forwards, then forwards and input gradients in turn. A weight gradient follows each
// input gradient from number `lag` on, so that `lag` of them are left for the end, where
// the rank would otherwise wait for the ranks before it.
std::vector<StageAction> split_backward_actions(int stage, int micro_batches, int warmup, int lag);

}  // namespace tessera
