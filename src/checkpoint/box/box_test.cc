#include "checkpoint/box/box.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/error.h"
#include "checkpoint/box/runs.h"
#include "checkpoint/testing/sample_save.h"

namespace tessera {
namespace {

using testing::Dice;
using testing::roll;

// How often each element of a tensor is in a box, by the definition.
std::vector<int> counts(const std::vector<int64_t>& shape, const std::vector<Box>& boxes) {
  const Placed whole = placed_dense(whole_box(shape));
  std::vector<int> result(static_cast<size_t>(volume(whole.box)), 0);
  for (const Box& box : boxes) {
    if (volume(box) == 0) continue;
    for_each_common_run(whole, placed_dense(box), box, [&](int64_t at, int64_t, int64_t count) {
      for (int64_t i = 0; i < count; ++i) ++result[static_cast<size_t>(at + i)];
    });
  }
  return result;
}

TEST(BoxTest, IntersectsAndMeasures) {
  const Box a{{0, 2}, {4, 4}}, b{{3, 0}, {4, 3}};
  const auto both = intersection(a, b);
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(*both, (Box{{3, 2}, {1, 1}}));
  EXPECT_EQ(box_text(*both), "[3:4, 2:3]");
  EXPECT_FALSE(intersection(a, Box{{4, 0}, {1, 9}}));
  EXPECT_EQ(volume(Box{}), 1);
  EXPECT_TRUE(intersection(Box{}, Box{}).has_value());
  EXPECT_TRUE(lies_in(a, std::vector<int64_t>{4, 6}));
  EXPECT_FALSE(lies_in(a, std::vector<int64_t>{4, 5}));
  EXPECT_FALSE(lies_in(a, std::vector<int64_t>{4}));
  EXPECT_FALSE(lies_in(Box{{INT64_MAX}, {INT64_MAX}}, std::vector<int64_t>{9}));
  EXPECT_FALSE(lies_in(Box{{-1}, {1}}, std::vector<int64_t>{9}));
}

TEST(BoxTest, RangesBecomeFewBoxesThatCoverThem) {
  Dice dice(1);
  for (int i = 0; i < 400; ++i) {
    std::vector<int64_t> shape(static_cast<size_t>(roll(dice, 0, 4)));
    for (int64_t& size : shape) size = roll(dice, 1, 5);
    const int64_t all = volume(whole_box(shape));
    const int64_t first = roll(dice, 0, all);
    const int64_t count = roll(dice, 0, all - first);
    const std::vector<Box> boxes = boxes_of_range(shape, first, count);
    EXPECT_LE(boxes.size(), std::max<size_t>(1, 2 * shape.size() - (shape.empty() ? 0 : 1)));
    std::vector<int> expected(static_cast<size_t>(all), 0);
    for (int64_t e = first; e < first + count; ++e) expected[static_cast<size_t>(e)] = 1;
    EXPECT_EQ(counts(shape, boxes), expected);
  }
  EXPECT_THROW(boxes_of_range(std::vector<int64_t>{4}, 3, 2), InternalError);
}

// Against counting, for covers that are exact and such that are not.
TEST(BoxTest, KnowsAnExactCover) {
  Dice dice(2);
  int exact = 0, wrong = 0;
  for (int i = 0; i < 400; ++i) {
    const std::vector<TensorHead> tensors = testing::random_tensors(dice, 1, 9);
    const std::vector<int64_t>& shape = tensors[0].shape;
    std::set<Box> distinct;
    for (const std::vector<HeldBox>& rank : testing::random_sharding(dice, tensors, 4)) {
      for (const HeldBox& held : rank) distinct.insert(held.box);
    }
    std::vector<Box> boxes(distinct.begin(), distinct.end());
    const int64_t mistake = roll(dice, 0, 4);
    if (mistake == 1) boxes.pop_back();
    if (mistake == 2) boxes.push_back(boxes.front());
    if (mistake == 3 && !shape.empty()) boxes.back().offset[0] += roll(dice, 0, 1);
    if (mistake == 4 && !shape.empty()) boxes.front().shape.back() -= 1;
    bool inside = true;
    for (const Box& box : boxes) inside = inside && lies_in(box, shape);
    const std::vector<int> times = inside ? counts(shape, boxes) : std::vector<int>{0};
    const bool is_exact =
        std::all_of(times.begin(), times.end(), [](int n) { return n == 1; }) && inside;
    EXPECT_EQ(cover_problem(shape, boxes).empty(), is_exact) << cover_problem(shape, boxes);
    ++(is_exact ? exact : wrong);
  }
  EXPECT_GT(exact, 50);
  EXPECT_GT(wrong, 50);
}

TEST(BoxTest, SaysWhichBoxesOverlap) {
  // As many elements as the tensor has, but two of them twice.
  EXPECT_EQ(cover_problem(std::vector<int64_t>{4}, {{{0}, {2}}, {{1}, {2}}}),
            "[0:2] and [1:3] overlap");
  EXPECT_EQ(cover_problem(std::vector<int64_t>{4}, {{{0}, {3}}}),
            "1 of 4 elements are in no chunk");
  EXPECT_EQ(cover_problem(std::vector<int64_t>{4}, {{{2}, {3}}}),
            "[2:5] does not lie in a tensor of shape [4]");
}

TEST(RunsTest, JoinsWhatLiesTogether) {
  const Placed whole = placed_dense(whole_box({3, 4, 5}));
  const auto runs = [&](const Box& box) {
    int64_t count = 0;
    for_each_common_run(whole, placed_dense(box), box, [&](int64_t, int64_t, int64_t) { ++count; });
    return count;
  };
  EXPECT_EQ(runs(whole.box), 1);
  EXPECT_EQ(runs({{1, 0, 0}, {2, 4, 5}}), 1);
  EXPECT_EQ(runs({{1, 1, 0}, {1, 2, 5}}), 1);
  EXPECT_EQ(runs({{0, 1, 0}, {3, 2, 5}}), 3);
  EXPECT_EQ(runs({{0, 0, 1}, {3, 4, 1}}), 12);
}

}  // namespace
}  // namespace tessera
