// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011). A value is a pure function of
// (seed, stream, index), so element i of a tensor is the same on every rank, mesh and thread.
#pragma once

#include <array>
#include <cstdint>

namespace tessera {

constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                         std::array<uint32_t, 2> key) {
  constexpr int kRounds = 10;
  constexpr uint64_t kMultiplier0 = 0xD2511F53;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
  // Weyl increments of the key: the golden ratio and sqrt(3) - 1.
  constexpr uint32_t kKeyStep0 = 0x9E3779B9;
  constexpr uint32_t kKeyStep1 = 0xBB67AE85;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kKeyStep0;
    key[1] += kKeyStep1;
  }
  return counter;
}

// Both draw from the same 128 bits of (seed, stream, index): use different streams where the
// uniform and the normal values must be independent of each other.
double uniform_at(uint64_t seed, uint64_t stream, uint64_t index);  // [0, 1), 53 bits
double normal_at(uint64_t seed, uint64_t stream, uint64_t index);   // mean 0, variance 1

}  // namespace tessera
