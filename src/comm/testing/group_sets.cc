#include "comm/testing/group_sets.h"

#include <functional>

namespace tessera::testing {
namespace {

std::vector<int> ranks_that(int world_size, const std::function<bool(int)>& belong) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    if (belong(rank)) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

std::vector<int> group_of(GroupKind kind, int rank, int world_size) {
  // The last row of the mesh is shorter where the world is not a rectangle.
  const int width = world_size <= 4 ? 2 : 3;
  switch (kind) {
    case GroupKind::kAll:
      return ranks_that(world_size, [](int) { return true; });
    case GroupKind::kRow:
      return ranks_that(world_size, [&](int r) { return r / width == rank / width; });
    case GroupKind::kColumn:
      return ranks_that(world_size, [&](int r) { return r % width == rank % width; });
    case GroupKind::kSameParity:
      return ranks_that(world_size, [&](int r) { return r % 2 == rank % 2; });
    case GroupKind::kPair:
      return ranks_that(world_size, [&](int r) { return r / 2 == rank / 2; });
    case GroupKind::kAllButLast:
      if (rank == world_size - 1) return {};
      return ranks_that(world_size, [&](int r) { return r != world_size - 1; });
    case GroupKind::kAlone:
      return {rank};
  }
  return {};
}

}  // namespace tessera::testing
