// How soon the caches of this machine lose what is read again and again.
#pragma once

#include "cost/hardware/measured_machine.h"

namespace tessera::serve {

// By a team of so many threads, each of which reads its part of all of it, over and over.
ReadingShares measure_reading(int threads, bool quick);

// `seconds`: of a byte, by the bytes that are read in turn. What it takes beside the fewest bytes
// is the nearest caches' loss up to `near_bytes`, and that of all of them beyond.
ReadingShares reading_shares(int threads, const std::vector<std::pair<double, double>>& seconds,
                             double near_bytes);

}  // namespace tessera::serve
