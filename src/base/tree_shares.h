// A sum along a binary tree whose leaves are shared out: each of several owners has a subtree and
// adds it up by itself, so that the order of additions does not depend on how many there are.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera {

// Leaves [first, first + count); count is a power of two that divides first.
struct TreeShare {
  int64_t first = 0, count = 1;
};

// What owner `owner` of `owners` has of `leaves`, a power of two that is no less. Shares differ by
// no more than a factor of two, and the larger ones come first: 4 leaves of 3 owners are 2, 1, 1.
constexpr TreeShare tree_share(int64_t leaves, int64_t owners, int64_t owner) {
  const auto shares = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(owners)));
  const int64_t twice = shares - owners;  // owners of two equal shares
  const int64_t size = leaves / shares;
  if (owner < twice) return {2 * owner * size, 2 * size};
  return {(owner + twice) * size, size};
}

// The sum of `count` leaves, a power of two, where leaf(i) is a number.
template <typename Leaf>
auto tree_sum(int64_t first, int64_t count, const Leaf& leaf) -> decltype(leaf(first)) {
  if (count == 1) return leaf(first);
  return tree_sum(first, count / 2, leaf) + tree_sum(first + count / 2, count / 2, leaf);
}

}  // namespace tessera
