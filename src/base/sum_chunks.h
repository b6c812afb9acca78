// How a sum over the inner dimension of a product is cut, so that its bits depend neither on how
// many rows are multiplied at once nor on how many ranks share the dimension: chunks of equal
// length are summed by themselves, and their sums along a binary tree. Ranks of a power of two have
// whole subtrees of it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera {

// Ranks up to which a shared dimension gives the same bits.
inline constexpr int64_t kMostEqualRanks = 8;
// Elements of a chunk at most, where the dimension can be cut so: it fits into a small cache.
inline constexpr int64_t kMostChunk = 1024;

// Chunks of a whole dimension of `inner` elements that `ranks` share.
constexpr int64_t sum_chunks(int64_t inner, bool shared, int64_t ranks) {
  if (!shared) return std::max<int64_t>(1, (inner + kMostChunk - 1) / kMostChunk);
  int64_t chunks = ranks;
  const auto cuts = [&](int64_t count) { return inner % count == 0; };
  while (chunks < kMostEqualRanks && cuts(2 * chunks)) chunks *= 2;
  while (inner / chunks > kMostChunk && cuts(2 * chunks)) chunks *= 2;
  return chunks;
}

}  // namespace tessera
