#include "graph/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.h"

namespace tessera {
namespace {

const std::map<std::string, Placement> kPlacements = {{"I", invariant()}, {"R", replicate()},
                                                      {"P", partial()},   {"S(0)", split(0)},
                                                      {"S(1)", split(1)}, {"M", maximum()}};

// Every pair that is a cast; all other pairs are refused.
const std::map<std::string, CastKind> kCasts = {
    {"P -> I", CastKind::kAllReduce},        {"P -> R", CastKind::kAllReduce},
    {"P -> S(0)", CastKind::kReduceScatter}, {"P -> S(1)", CastKind::kReduceScatter},
    {"S(0) -> I", CastKind::kAllGather},     {"S(0) -> R", CastKind::kAllGather},
    {"S(1) -> I", CastKind::kAllGather},     {"S(1) -> R", CastKind::kAllGather},
    {"S(0) -> S(1)", CastKind::kAllToAll},   {"S(1) -> S(0)", CastKind::kAllToAll},
    {"I -> R", CastKind::kNothing},          {"I -> S(0)", CastKind::kSlice},
    {"I -> S(1)", CastKind::kSlice},         {"R -> S(0)", CastKind::kSlice},
    {"R -> S(1)", CastKind::kSlice},         {"M -> I", CastKind::kAllReduce},
    {"M -> R", CastKind::kAllReduce},
};

TEST(Placement, TextIsOneWord) {
  for (const auto& [text, placement] : kPlacements) EXPECT_EQ(to_string(placement), text);
  EXPECT_EQ(name_of(Axis::kFsdp), "fsdp");
  EXPECT_EQ(name_of(Axis::kTp), "tp");
}

TEST(Placement, GradientOfASumIsReplicatedAndTheOtherWayRound) {
  EXPECT_EQ(dual(replicate()), partial());
  EXPECT_EQ(dual(partial()), replicate());
  EXPECT_EQ(dual(invariant()), invariant());
  EXPECT_EQ(dual(split(1)), split(1));
  for (const auto& [text, placement] : kPlacements) EXPECT_EQ(dual(dual(placement)), placement);
}

TEST(Placement, EveryPairIsTheRightCastOrRefused) {
  for (const auto& [from_text, from] : kPlacements) {
    for (const auto& [to_text, to] : kPlacements) {
      const std::string pair = from_text + " -> " + to_text;
      const auto legal = kCasts.find(pair);
      EXPECT_EQ(is_cast(from, to), legal != kCasts.end()) << pair;
      if (legal != kCasts.end()) {
        EXPECT_EQ(cast_kind(from, to), legal->second) << pair;
      } else {
        EXPECT_THROW(cast_kind(from, to), InternalError) << pair;
      }
    }
  }
}

// A cast a -> b is differentiated as dual(b) -> dual(a). R -> S would need S -> P, so the model may
// use it only where no gradient flows, and maxima have none; all others close under the dual.
TEST(Placement, CastsAreClosedUnderTheDual) {
  for (const auto& [from_text, from] : kPlacements) {
    for (const auto& [to_text, to] : kPlacements) {
      if (!is_cast(from, to) || from == replicate() || from == maximum()) continue;
      const bool free = dual(to) == dual(from);
      EXPECT_TRUE(free || is_cast(dual(to), dual(from))) << from_text << " -> " << to_text;
    }
  }
}

}  // namespace
}  // namespace tessera
