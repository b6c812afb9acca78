// Values that show whether a collective gave the right result: small whole numbers, exact in every
// element type and in every order of addition, different for every rank, block and case.
#pragma once

#include <cstdint>

#include "bench/bench_case.h"

namespace tessera {

// Both arrays of `rank` before the call; the rest of them is overwritten too, so that what is left
// from another case cannot pass for a result. `seed` tells cases apart.
void fill_arrays(const BenchCase& bench, int rank, const BenchArrays& arrays, uint64_t seed);

// How many elements of the result of `rank` are not what they must be.
int64_t count_wrong(const BenchCase& bench, int rank, const BenchArrays& arrays, uint64_t seed);

}  // namespace tessera
