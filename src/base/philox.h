// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011). A value is a pure function of
// (seed, stream, index), so element i of a tensor is the same on every rank, mesh and thread.
#pragma once

#include <array>
#include <cstdint>

namespace tessera {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Both draw from the same 128 bits of (seed, stream, index): use different streams where the
// uniform and the normal values must be independent of each other.
double uniform_at(uint64_t seed, uint64_t stream, uint64_t index);  // [0, 1), 53 bits
double normal_at(uint64_t seed, uint64_t stream, uint64_t index);   // mean 0, variance 1

}  // namespace tessera
