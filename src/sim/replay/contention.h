// What kernels lose while bytes of their rank are on the wire: collectives run on the same
// multiprocessors and move their bytes through the same memory.
#pragma once

#include "cost/engine/engine.h"
#include "cost/hardware/constant.h"

namespace tessera {

// Shares of the speed of kernels, 0 to 1.
struct Contention {
  // The plan's own: it charges so much of the time of communication that kernels hide.
  Constant collective = {
      engine::kOverlapSlowdown, Provenance::kFitted,
      "published runs with overlapped sums (cost/engine/engine.h); what Galvatron "
      "measures, 1.1 to 1.3 times as long on both sides, costs 0.2 to 0.6"};
  // A message is copied by the network card.
  Constant message = {0.02, Provenance::kDefault,
                      "Calculon's share of a processor that serves InfiniBand"};
};

inline Contention no_contention() {
  return {{0, Provenance::kDefault, "switched off"}, {0, Provenance::kDefault, "switched off"}};
}

}  // namespace tessera
