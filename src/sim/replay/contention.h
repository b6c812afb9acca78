// What kernels lose while bytes of their rank are on the wire: collectives run on the same
// multiprocessors and move their bytes through the same memory.
#pragma once

#include "cost/engine/engine.h"

namespace tessera {

// Shares of the speed of kernels, 0 to 1.
struct Contention {
  double collective = 0;
  double message = 0;  // is copied by the network card
};

// The plan's own: it charges so much of the time of communication that kernels hide.
inline Contention contention_of(const EngineNumbers& engine) {
  return {engine.overlap_slowdown, engine.message_slowdown};
}

inline Contention no_contention() { return {}; }

}  // namespace tessera
