#include "collective/selection.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using enum CollectiveOp;
using enum Algorithm;

TEST(SelectionTest, TheFirstRuleThatFitsDecides) {
  const Selection selection{{{.op = kAllReduce, .end_bytes = 4096, .algorithm = kDoubling},
                             {.op = kAllReduce, .min_bytes = 2048, .algorithm = kRing},
                             {.op = kBroadcast, .algorithm = kTree},
                             {.op = kAllGather,
                              .min_bytes = 1 << 20,
                              .end_bytes = 2 << 20,
                              .min_ranks = 4,
                              .max_ranks = 8,
                              .algorithm = kNaive}}};
  EXPECT_EQ(selection.choose(kAllReduce, 0, 4), kDoubling);
  EXPECT_EQ(selection.choose(kAllReduce, 4095, 4), kDoubling);
  EXPECT_EQ(selection.choose(kAllReduce, 4096, 4), kRing);
  EXPECT_EQ(selection.choose(kAllReduce, int64_t{1} << 40, 4), kRing);
  EXPECT_EQ(selection.choose(kBroadcast, 1, 2), kTree);
  EXPECT_EQ(selection.choose(kAllGather, 1 << 20, 4), kNaive);
  EXPECT_EQ(selection.choose(kAllGather, 2 << 20, 4), kDirect);
  EXPECT_EQ(selection.choose(kAllGather, 1 << 20, 3), kDirect);
  EXPECT_EQ(selection.choose(kAllGather, 1 << 20, 9), kDirect);
}

TEST(SelectionTest, NothingSaidIsTheDefault) {
  for (const Selection& selection : {Selection{}, Selection{{{.op = kAllReduce}}},
                                     Selection{{{.op = kBroadcast, .algorithm = kTree}}}}) {
    for (const int64_t bytes : {0, 1024, 100'000}) {
      EXPECT_EQ(selection.choose(kAllReduce, bytes, 4), choose_algorithm(kAllReduce, bytes, 4));
    }
  }
}

TEST(SelectionTest, AutoStopsTheSearch) {
  const Selection selection{{{.op = kAllReduce, .end_bytes = 4096, .algorithm = kAuto},
                             {.op = kAllReduce, .algorithm = kRing}}};
  EXPECT_EQ(selection.choose(kAllReduce, 100, 2), kOneShot);
  EXPECT_EQ(selection.choose(kAllReduce, 4096, 2), kRing);
}

}  // namespace
}  // namespace tessera
