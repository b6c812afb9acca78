#include "serve/batch/played_frames.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace tessera::serve {
namespace {

ServeShape shape_of(int stages) {
  return {.vocab = 10,
          .max_context = 4096,
          .page_size = 16,
          .num_pages = 4096,
          .max_tokens = 512,
          .max_sequences = 32,
          .max_rows = 32,
          .stages = stages};
}

BatchOptions options_of(int64_t budget, int64_t chunk) {
  BatchOptions options;
  options.token_budget = budget;
  options.least_chunk = chunk;
  options.prefix_cache = false;
  return options;
}

// What every play must keep: a stage computes one frame at a time, in their order, and each frame
// goes through the stages one after the other.
void expect_possible(const PlayedServing& played) {
  for (size_t f = 0; f < played.frames.size(); ++f) {
    const PlayedFrame& frame = played.frames[f];
    for (size_t s = 0; s < frame.stages.size(); ++s) {
      const double made = s == 0 ? frame.planned : frame.stages[s - 1].second;
      const double free = f == 0 ? 0 : played.frames[f - 1].stages[s].second;
      EXPECT_GE(frame.stages[s].first, std::max(made, free));
    }
  }
}

TEST(PlayedFrames, ChunksOfAPromptFollowEachOtherThroughTheStages) {
  const PlayedServing played =
      play_serving(shape_of(4), options_of(512, 100), {{0, 400, 2}}, {}, 100);
  expect_possible(played);
  ASSERT_EQ(played.frames.size(), 5U);  // four chunks, and the second token of the answer
  for (int64_t i = 0; i < 4; ++i) {
    const PlayedFrame& frame = played.frames[static_cast<size_t>(i)];
    ASSERT_EQ(frame.parts.size(), 1U);
    EXPECT_EQ(frame.parts[0].first, 100 * i);
    EXPECT_EQ(frame.parts[0].count, 100);
    EXPECT_FALSE(frame.parts[0].is_answer);
    EXPECT_EQ(frame.rows, i == 3 ? 1 : 0);
    EXPECT_EQ(frame.stages.front().first, static_cast<double>(i));
    EXPECT_EQ(frame.stages.back().second, static_cast<double>(i + 4));
  }
  // 4 stages + 4 chunks - 1, where one after the other would take 16.
  EXPECT_EQ(played.first_token[0], 7);
  EXPECT_TRUE(played.frames[4].parts[0].is_answer);
  EXPECT_EQ(played.end[0], 11);
  EXPECT_EQ(played.busy(2), 5);
}

TEST(PlayedFrames, AnswersFillThePipelineInGroups) {
  const std::vector<PlayedRequest> requests(8, PlayedRequest{0, 1, 40});
  const PlayedServing played = play_serving(shape_of(4), options_of(512, 1), requests, {}, 1000);
  expect_possible(played);
  // Once all write, every frame has a quarter of them and no stage waits.
  const PlayedFrame& frame = played.frames[60];
  EXPECT_EQ(frame.parts.size(), 2U);
  EXPECT_EQ(frame.stages[0].first, played.frames[59].stages[0].second);
  EXPECT_GT(played.busy(0) / played.makespan, 0.95);
  const PlayedServing alone = play_serving(shape_of(4), options_of(512, 1), {{0, 1, 40}}, {}, 1000);
  EXPECT_NEAR(alone.busy(0) / alone.makespan, 0.25, 1e-12);
}

TEST(PlayedFrames, TokensTakeTimeAndRequestsArrive) {
  const PlayedServing played =
      play_serving(shape_of(1), options_of(512, 256), {{0, 500, 3}, {2, 10, 1}}, {1, 0.01}, 100);
  expect_possible(played);
  EXPECT_DOUBLE_EQ(played.first_token[0], 6);
  // The second came while the first was computed; it shares a frame with its second token.
  ASSERT_EQ(played.frames[1].parts.size(), 2U);
  EXPECT_EQ(played.frames[1].tokens, 11);
  EXPECT_DOUBLE_EQ(played.end[1], 6 + 1.11);
  const PlayedServing late =
      play_serving(shape_of(1), options_of(512, 256), {{5, 10, 1}}, {1, 0}, 100);
  EXPECT_EQ(late.frames[0].planned, 5);
}

TEST(PlayedFrames, FewPagesPreemptAndNothingIsLost) {
  ServeShape shape = shape_of(2);
  shape.num_pages = 9;
  BatchOptions options = options_of(64, 16);
  options.expected_answer = 1;
  const PlayedServing played = play_serving(shape, options, {{0, 60, 40}, {0, 60, 40}}, {}, 1000);
  expect_possible(played);
  EXPECT_GT(played.preemptions, 0U);
  EXPECT_GT(played.recomputed_tokens, 0U);
  EXPECT_GT(played.end[0], 0);
  EXPECT_GT(played.end[1], 0);
  for (const PlayedFrame& frame : played.frames) EXPECT_LE(frame.pages_used, 9);
}

TEST(PlayedFrames, RefusesWhatCannotRunAndWhatNeverEnds) {
  EXPECT_THROW(
      static_cast<void>(play_serving(shape_of(1), options_of(512, 16), {{0, 5000, 1}}, {}, 10)),
      ConfigError);
  EXPECT_THROW(
      static_cast<void>(play_serving(shape_of(1), options_of(1, 1), {{0, 100, 1}}, {}, 10)),
      ConfigError);
}

}  // namespace
}  // namespace tessera::serve
