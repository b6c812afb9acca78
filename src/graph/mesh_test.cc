#include "graph/mesh.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace tessera {
namespace {

// pp 2, dp 3, fsdp 2, cp 1, tp 4: 48 ranks, tp fastest.
Mesh big_mesh() { return Mesh({2, 3, 2, 1, 4}); }

TEST(Mesh, CoordinatesCountWithTpFastest) {
  const Mesh mesh = big_mesh();
  EXPECT_EQ(mesh.world(), 48);
  int rank = 0;
  for (int64_t pp = 0; pp < 2; ++pp) {
    for (int64_t dp = 0; dp < 3; ++dp) {
      for (int64_t fsdp = 0; fsdp < 2; ++fsdp) {
        for (int64_t tp = 0; tp < 4; ++tp, ++rank) {
          EXPECT_EQ(mesh.coord(rank, Axis::kPp), pp);
          EXPECT_EQ(mesh.coord(rank, Axis::kDp), dp);
          EXPECT_EQ(mesh.coord(rank, Axis::kFsdp), fsdp);
          EXPECT_EQ(mesh.coord(rank, Axis::kCp), 0);
          EXPECT_EQ(mesh.coord(rank, Axis::kTp), tp);
        }
      }
    }
  }
}

TEST(Mesh, PeersDifferOnlyInTheirAxes) {
  const Mesh mesh = big_mesh();
  EXPECT_EQ(mesh.peers(5, Axis::kTp), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(mesh.peers(5, Axis::kFsdp), (std::vector<int>{1, 5}));
  EXPECT_EQ(mesh.peers(5, Axis::kDp), (std::vector<int>{5, 13, 21}));
  EXPECT_EQ(mesh.peers(30, Axis::kPp), (std::vector<int>{6, 30}));
  EXPECT_EQ(mesh.peers(5, Axis::kCp), (std::vector<int>{5}));
  EXPECT_EQ(mesh.peers(0, AxisSet(Axis::kDp).with(Axis::kFsdp)),
            (std::vector<int>{0, 4, 8, 12, 16, 20}));
  EXPECT_EQ(mesh.peers(17, AxisSet::all()).size(), 48U);
  EXPECT_EQ(mesh.position(21, AxisSet(Axis::kDp).with(Axis::kFsdp)), 5);
}

TEST(Mesh, GroupsOfAnAxisPartitionTheWorld) {
  const Mesh mesh = big_mesh();
  for (const Axis axis : kAllAxes) {
    std::multiset<int> seen;
    for (int rank = 0; rank < 48; ++rank) {
      const std::vector<int> group = mesh.peers(rank, axis);
      EXPECT_EQ(static_cast<int64_t>(group.size()), mesh.size(axis));
      EXPECT_EQ(group[static_cast<size_t>(mesh.position(rank, axis))], rank);
      if (group.front() == rank) seen.insert(group.begin(), group.end());
    }
    EXPECT_EQ(seen.size(), 48U);
    EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), 48U);
  }
}

TEST(Mesh, Names) {
  EXPECT_EQ(name_of(AxisSet(Axis::kTp)), "tp");
  EXPECT_EQ(name_of(AxisSet(Axis::kFsdp).with(Axis::kDp)), "dp+fsdp");
  EXPECT_EQ(name_of(AxisSet::all()), "world");
  EXPECT_EQ(big_mesh().describe(47), "pp1 dp2 fsdp1 tp3");
  EXPECT_EQ(Mesh().describe(0), "alone");
}

TEST(Mesh, AGroupNamesOnlyAxesThatHaveOtherRanks) {
  const Mesh mesh = big_mesh();  // cp is 1
  const AxisSet shards = AxisSet(Axis::kFsdp).with(Axis::kCp);
  EXPECT_EQ(name_of(mesh.group(shards)), "fsdp");
  EXPECT_EQ(mesh.peers(7, mesh.group(shards)), mesh.peers(7, shards));
  EXPECT_EQ(mesh.group(AxisSet::all()), AxisSet::all());
  EXPECT_EQ(mesh.group(Axis::kCp), AxisSet());
}

TEST(Mesh, AnAxisHasAtLeastOneRank) { EXPECT_THROW(Mesh({1, 0, 1, 1, 1}), InternalError); }

}  // namespace
}  // namespace tessera
