#include "launch/cores.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera {
namespace {

TEST(CoresTest, SeesTheAllowedCores) {
  std::set<int> cpus;
  for (const Core& core : allowed_cores()) cpus.insert(core.cpu);
  EXPECT_FALSE(cpus.empty());
  EXPECT_EQ(cpus.size(), allowed_cores().size());
}

// Two packages of two cores with two threads each, numbered as Linux does on many machines.
const std::vector<Core> kMachine = {{0, 0, 0}, {1, 0, 1}, {2, 1, 0}, {3, 1, 1},
                                    {4, 0, 0}, {5, 0, 1}, {6, 1, 0}, {7, 1, 1}};

TEST(CoresTest, GivesNeighboursToARank) {
  using Cpus = std::vector<int>;
  EXPECT_EQ(share_of_cores(kMachine, 0, 2, 1), (Cpus{0, 1, 4, 5}));
  EXPECT_EQ(share_of_cores(kMachine, 1, 2, 4), (Cpus{2, 3, 6, 7}));
  EXPECT_EQ(share_of_cores(kMachine, 2, 4, 2), (Cpus{2, 6}));
  EXPECT_EQ(share_of_cores(kMachine, 0, 8, 1), (Cpus{0}));
  EXPECT_EQ(share_of_cores(kMachine, 1, 8, 1), (Cpus{4}));
}

TEST(CoresTest, SharesAreDisjointAndCoverAll) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    std::multiset<int> given;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<int> share = share_of_cores(kMachine, rank, ranks, 1);
      EXPECT_GE(share.size(), 8U / static_cast<size_t>(ranks));
      given.insert(share.begin(), share.end());
    }
    EXPECT_EQ(given, (std::multiset<int>{0, 1, 2, 3, 4, 5, 6, 7})) << ranks;
  }
}

TEST(CoresTest, DoesNotPinMoreThreadsThanCores) {
  EXPECT_TRUE(share_of_cores(kMachine, 0, 9, 1).empty());
  EXPECT_TRUE(share_of_cores(kMachine, 0, 2, 5).empty());
  EXPECT_TRUE(share_of_cores({}, 0, 1, 1).empty());
}

}  // namespace
}  // namespace tessera
