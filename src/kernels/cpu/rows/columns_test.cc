#include "kernels/testing/test_support.h"

namespace tessera::kernels {
namespace {

using namespace testing;  // test vocabulary

struct Case {
  int64_t tokens, ranks, groups, run;
};
const std::vector<Case> kCases = {{1, 1, 1, 1}, {3, 2, 1, 5}, {7, 3, 2, 4}, {40, 4, 2, 3}};

TEST(Columns, EveryRankGetsItsPartOfEveryGroup) {
  Rng rng(1);
  for (const Case& c : kCases) {
    for (const DType type : kFloatTypes) {
      SCOPED_TRACE(fmt::format("{} tokens {} ranks {}", c.tokens, c.ranks, name_of(type)));
      const int64_t width = c.ranks * c.groups * c.run, part = c.groups * c.run;
      Array x(type, {c.tokens, width}), y(type, {c.ranks, c.tokens, part});
      x.randomise(rng);
      Rig rig(2, 0);
      split_columns(rig, x, y, c.groups);
      for (int64_t rank = 0; rank < c.ranks; ++rank) {
        for (int64_t t = 0; t < c.tokens; ++t) {
          for (int64_t g = 0; g < c.groups; ++g) {
            for (int64_t i = 0; i < c.run; ++i) {
              EXPECT_EQ(y.get((rank * c.tokens + t) * part + g * c.run + i),
                        x.get(t * width + (g * c.ranks + rank) * c.run + i));
            }
          }
        }
      }
      Array back(type, {c.tokens, width});
      join_columns(rig, y, back, c.groups);
      EXPECT_TRUE(back.same_bits(x));
    }
  }
}

TEST(Columns, RefusesWidthsThatDoNotDivide) {
  Rig rig(1, 0);
  Array x(DType::kF32, {2, 6}), y(DType::kF32, {2, 2, 3});
  EXPECT_NO_THROW(split_columns(rig, x, y, 1));
  EXPECT_THROW(split_columns(rig, x, y, 2), InternalError);
  Array wrong(DType::kF32, {3, 2, 3});
  EXPECT_THROW(join_columns(rig, wrong, x, 1), InternalError);
}

}  // namespace
}  // namespace tessera::kernels
