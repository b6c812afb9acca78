// Overlapping groups of a world, as a mesh has them, and some that no mesh has.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::testing {

enum class GroupKind : uint8_t { kAll, kRow, kColumn, kSameParity, kPair, kAllButLast, kAlone };
constexpr int kNumGroupKinds = 7;

// The group of that kind that `rank` is in, ascending; empty where it is in none.
std::vector<int> group_of(GroupKind kind, int rank, int world_size);

}  // namespace tessera::testing
