#include "collective/selection.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/message_of.h"

namespace tessera {
namespace {

using enum CollectiveOp;
using enum Algorithm;

TEST(SelectionTest, TheFirstRuleThatFitsDecides) {
  const Selection selection = parse_selection(
      "all_reduce:0-4k:doubling#4k-inf:ring # broadcast:tree#all_gather:1m-2m:n4-8:naive");
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
  for (const char* text : {"", "  ", "all_reduce:auto", "broadcast:tree"}) {
    const Selection selection = parse_selection(text);
    for (const int64_t bytes : {0, 1024, 100'000}) {
      EXPECT_EQ(selection.choose(kAllReduce, bytes, 4), choose_algorithm(kAllReduce, bytes, 4));
    }
  }
}

TEST(SelectionTest, AutoStopsTheSearch) {
  const Selection selection = parse_selection("all_reduce:0-4k:auto#ring");
  EXPECT_EQ(selection.choose(kAllReduce, 100, 2), kOneShot);
  EXPECT_EQ(selection.choose(kAllReduce, 4096, 2), kRing);
}

TEST(SelectionTest, PrintsWhatItReads) {
  for (const char* text : {"all_reduce:0-4k:doubling#all_reduce:4k-inf:ring", "broadcast:tree",
                           "all_gather:1000-3m:n4-8:ring", "reduce_scatter:n2-inf:doubling",
                           "all_reduce:5g-6g:auto", ""}) {
    EXPECT_EQ(to_text(parse_selection(text)), text);
  }
  EXPECT_EQ(to_text(parse_selection("all_reduce:n4:0-4K:ring#naive")),
            "all_reduce:0-4k:n4-4:ring#all_reduce:naive");
}

std::string error_of(const char* text) {
  return testing::message_of([&] { (void)parse_selection(text); });
}

TEST(SelectionTest, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"ring", "in \"ring\": the first rule must name an op"},
      {"all_reduce:rng", "there is no algorithm 'rng': did you mean 'ring'?"},
      {"all_reduce:", "there is no algorithm ''"},
      {"allreduce:ring", "there is no op 'allreduce': did you mean 'all_reduce'?"},
      {"all_reduce:4k:ring", "the range 4k has no end: write 4k-inf or 4k-64k"},
      {"all_reduce:4k-4k:ring", "the range 4k-4k is empty"},
      {"all_reduce:8k-4k:ring", "the range 8k-4k is empty"},
      {"all_reduce:4x-8x:ring", "'4x' is no size"},
      {"all_reduce:0--1:ring", "'-1' is no size"},
      {"all_reduce:0-:ring", "'' is no size"},
      {"all_reduce:0-99999999999g:ring", "too large"},
      {"all_reduce:0-99999999999999999999:ring", "is no size"},
      {"all_reduce:n0:ring", "n0 is no range of ranks: write n4 or n4-8"},
      {"all_reduce:n8-4:ring", "n8-4 is no range of ranks"},
      {"scatter:ring", "scatter has no algorithm 'ring': use direct, naive, tree"},
      {"all_reduce:ring##tree", "there is no algorithm ''"},
      {"all_reduce:ring#all_gather:tree", "in \"all_gather:tree\": all_gather has no algorithm"},
  };
  for (const auto& [text, part] : cases) {
    const std::string error = error_of(text);
    EXPECT_NE(error.find(part), std::string::npos) << text << ": " << error;
    EXPECT_NE(error.find("algorithm selection"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
