#include "compile/pipeline/schedule/schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "compile/pipeline/schedule/named_schedule.h"
#include "compile/pipeline/schedule/replay.h"
#include "spec/run_file/pipeline.h"

namespace tessera {
namespace {

ScheduleFacts facts(std::string_view name, int ranks, int micro_batches, int virtual_stages = 0) {
  return facts_of(replay(make_schedule(name, ranks, virtual_stages, micro_batches)));
}

// In percent with one digit, as tables show it.
std::string bubble(const ScheduleFacts& facts) { return fmt::format("{:.1f}", 100 * facts.bubble); }

std::string refusal(std::string_view name, int ranks, int virtual_stages, int micro_batches,
                    int group = 0) {
  return testing::message_of(
      [&] { make_schedule(name, ranks, virtual_stages, micro_batches, group); });
}

std::string list_of(const PipelineSchedule& schedule, size_t rank) {
  std::string text;
  for (const StageAction& action : schedule.actions[rank]) text += cell_text(action) + " ";
  return text;
}

// The shape is one that the schedule refuses for a reason of its own.
bool is_refused_shape(std::string_view name, int ranks, int micro_batches) {
  if (name == "interleaved") {
    const int rest = micro_batches % ranks;
    return micro_batches < ranks || rest != 0;
  }
  return name == "dualpipe-v" && micro_batches < 2 * ranks;
}

TEST(ScheduleTest, OneForwardOneBackwardIsTheKnownOrder) {
  const PipelineSchedule schedule = make_schedule("1f1b", 4, 1, 6);
  EXPECT_EQ(list_of(schedule, 1), "F1.0 F1.1 F1.2 B1.0 F1.3 B1.1 F1.4 B1.2 F1.5 B1.3 B1.4 B1.5 ");
  EXPECT_FALSE(schedule.asynchronous);
}

TEST(ScheduleTest, InterleavedTakesGroupsThroughItsChunksInTurn) {
  const PipelineSchedule schedule = make_schedule("interleaved", 2, 2, 4);
  EXPECT_EQ(list_of(schedule, 1),
            "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3 ");
}

TEST(ScheduleTest, VSchedulesHoldTheFirstAndTheLastStageOnOneRank) {
  for (const char* name : {"zb-v", "dualpipe-v"}) {
    EXPECT_EQ(make_schedule(name, 3, 0, 6).rank_of_stage, (std::vector{0, 1, 2, 2, 1, 0})) << name;
  }
  EXPECT_EQ(make_schedule("interleaved", 3, 2, 6).rank_of_stage, (std::vector{0, 1, 2, 0, 1, 2}));
}

TEST(ScheduleTest, PipeDreamRunsInTheOrderOf1F1B) {
  for (const char* name : {"pipedream", "pipedream-2bw"}) {
    const PipelineSchedule schedule = make_schedule(name, 4, 1, 6);
    EXPECT_TRUE(schedule.asynchronous) << name;
    EXPECT_EQ(schedule.actions, make_schedule("1f1b", 4, 1, 6).actions) << name;
  }
}

// Bubble in percent and live chunks of the worst rank; all passes cost 1, transfers nothing.
TEST(ScheduleFactsTest, BubblesAndPeaksEqualTheTable) {
  struct Row {
    int ranks, micro_batches;
    const char *one_f_one_b, *interleaved, *zb_h1, *zb_v, *dualpipe_v;
  };
  const Row rows[] = {
      {2, 4, "20.0 / 2", "11.1 / 5", "7.7 / 2", "4.0 / 4", "4.0 / 5"},
      {4, 8, "27.3 / 4", "15.8 / 11", "11.1 / 4", "5.9 / 8", "5.9 / 9"},
      {4, 16, "15.8 / 4", "8.6 / 11", "5.9 / 4", "3.0 / 8", "3.0 / 9"},
      {8, 16, "30.4 / 8", "17.9 / 23", "12.7 / 8", "6.8 / 16", "6.8 / 17"},
      {8, 32, "17.9 / 8", "9.9 / 23", "6.8 / 8", "3.5 / 16", "3.5 / 17"},
  };
  for (const Row& row : rows) {
    const auto cell = [&](const char* name) {
      const ScheduleFacts f = facts(name, row.ranks, row.micro_batches);
      return fmt::format("{} / {}", bubble(f), f.peak_live);
    };
    SCOPED_TRACE(fmt::format("p={} m={}", row.ranks, row.micro_batches));
    EXPECT_EQ(cell("1f1b"), row.one_f_one_b);
    EXPECT_EQ(cell("interleaved"), row.interleaved);
    EXPECT_EQ(cell("zb-h1"), row.zb_h1);
    EXPECT_EQ(cell("zb-v"), row.zb_v);
    EXPECT_EQ(cell("dualpipe-v"), row.dualpipe_v);
  }
}

TEST(ScheduleFactsTest, IdleInsideTheWindowEqualsTheTable) {
  const auto idle = [](const char* name) {
    std::vector<double> result;
    for (const RankFacts& rank : facts(name, 8, 32).ranks) result.push_back(rank.idle_inside);
    return result;
  };
  const std::vector<double> threes = {21, 18, 15, 12, 9, 6, 3, 0};
  const std::vector<double> ones = {7, 6, 5, 4, 3, 2, 1, 0};
  const std::vector<double> none(8, 0.0);
  EXPECT_EQ(idle("1f1b"), threes);
  EXPECT_EQ(idle("interleaved"), threes);
  EXPECT_EQ(idle("zb-h1"), ones);
  EXPECT_EQ(idle("dualpipe-v"), ones);
  EXPECT_EQ(idle("zb-v"), none);
  EXPECT_EQ(idle("zb-h2"), none);
}

TEST(ScheduleFactsTest, GPipeHasTheBubbleOfTheTextbook) {
  EXPECT_EQ(bubble(facts("gpipe", 4, 4)), "42.9");
  EXPECT_EQ(bubble(facts("gpipe", 4, 8)), "27.3");
  EXPECT_EQ(bubble(facts("gpipe", 4, 32)), "8.6");
  EXPECT_EQ(bubble(facts("gpipe", 16, 8)), "65.2");
  EXPECT_EQ(bubble(facts("gpipe", 16, 64)), "19.0");
}

TEST(ScheduleFactsTest, FormulasHoldForManyShapes) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 24; ++m) {
      SCOPED_TRACE(fmt::format("p={} m={}", p, m));
      const ScheduleFacts gpipe = facts("gpipe", p, m);
      const ScheduleFacts one = facts("1f1b", p, m);
      EXPECT_EQ(facts("naive", p, m).makespan, 3 * p * m);
      EXPECT_EQ(gpipe.makespan, 3 * (m + p - 1));
      EXPECT_EQ(one.makespan, 3 * (m + p - 1));
      EXPECT_EQ(gpipe.peak_live, m);
      if (m >= p) {
        EXPECT_EQ(facts("zb-h1", p, m).makespan, 3 * m + p - 1);
      }
      if (m >= 2 * p - 1) {
        EXPECT_EQ(facts("zb-h2", p, m).makespan, 3 * m + p - 1);
        EXPECT_EQ(facts("zb-h2", p, m).peak_live, 2 * p - 1);
      }
      for (int r = 0; r < p; ++r) {
        EXPECT_EQ(one.ranks[static_cast<size_t>(r)].peak_live, std::min(p - r, m)) << r;
      }
    }
  }
}

TEST(ScheduleFactsTest, TransfersDelayOtherRanksOnly) {
  const PipelineSchedule schedule = make_schedule("gpipe", 3, 1, 2);
  EXPECT_EQ(replay(schedule, {.transfer = 0.5}).makespan, 3 * (2 + 2) + 4 * 0.5);
  // A V passes from its first to its second half on one rank.
  const PipelineSchedule v = make_schedule("zb-v", 1, 2, 2);
  EXPECT_EQ(replay(v, {.transfer = 0.5}).makespan, replay(v).makespan);
}

TEST(ScheduleFactsTest, EveryBoundaryHasItsTransfer) {
  const PipelineSchedule schedule = make_schedule("gpipe", 3, 1, 1);
  PassCosts costs;
  costs.transfers = {0.5, 3};
  EXPECT_EQ(replay(schedule, costs).makespan, 3 * (1 + 2) + 2 * (0.5 + 3));
}

TEST(ScheduleFactsTest, ASlowStageSetsThePace) {
  const PipelineSchedule schedule = make_schedule("1f1b", 2, 1, 8);
  PassCosts costs;
  costs.stages = {{}, {.forward = 2, .input_grad = 2, .weight_grad = 2}};
  EXPECT_EQ(replay(schedule, costs).makespan, 1 + 8 * 6 + 2);
}

// Everything that make_schedule gives is complete, free of deadlock, on the right ranks, and takes
// the micro-batches of a stage in ascending order in every pass.
TEST(SchedulePropertyTest, EveryScheduleOfEveryShapeIsValid) {
  int made = 0;
  for (const std::string_view name : kNamesOf<PipelineKind>) {
    for (int p = 1; p <= 9; ++p) {
      for (int m = 1; m <= 20; ++m) {
        if (is_refused_shape(name, p, m)) continue;
        const PipelineSchedule schedule = make_schedule(name, p, 0, m);
        ASSERT_NO_THROW(check_schedule(schedule)) << name << " p=" << p << " m=" << m;
        std::map<std::tuple<StagePass, int>, int> last;
        for (const auto& actions : schedule.actions) {
          for (const StageAction& action : actions) {
            // B is both I and W.
            const bool both = action.pass == StagePass::kBackward;
            for (const StagePass pass : {both ? StagePass::kInputGrad : action.pass,
                                         both ? StagePass::kWeightGrad : action.pass}) {
              int& before = last.try_emplace({pass, action.stage}, -1).first->second;
              ASSERT_TRUE(before <= action.micro_batch) << name << cell_text(action);
              before = action.micro_batch;
            }
          }
        }
        ++made;
      }
    }
  }
  EXPECT_GT(made, 1500);
}

// What the cost model takes without a list: never less than the list keeps, and as much on the rank
// that keeps the most.
TEST(SchedulePropertyTest, LiveMicroBatchesAreThoseOfTheList) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    const std::string_view name = name_of(kind.kind);
    for (int p = 2; p <= 7; ++p) {
      for (int m = 1; m <= 16; ++m) {
        if (is_refused_shape(name, p, m)) continue;
        SCOPED_TRACE(fmt::format("{} p={} m={}", name, p, m));
        const ScheduleFacts listed = facts(name, p, m);
        int64_t most = 0;
        for (int r = 0; r < p; ++r) {
          const int64_t live = live_micro_batches(kind.kind, {r, p, kind.virtual_stages, m});
          EXPECT_GE(live, listed.ranks[static_cast<size_t>(r)].peak_live) << r;
          most = std::max(most, live);
        }
        EXPECT_EQ(most, listed.peak_live);
      }
    }
  }
}

TEST(SchedulePropertyTest, InterleavedTakesEveryGroupSizeThatItSaysItTakes) {
  int made = 0;
  for (int p = 1; p <= 6; ++p) {
    for (int v = 1; v <= 4; ++v) {
      for (int m = p; m <= 20; ++m) {
        for (int group = p; group <= m; ++group) {
          if (m % group != 0 && m % group < p) continue;
          const PipelineSchedule schedule = make_schedule("interleaved", p, v, m, group);
          ASSERT_NO_THROW(check_schedule(schedule)) << p << " " << v << " " << m << " " << group;
          ++made;
        }
      }
    }
  }
  EXPECT_GT(made, 1000);
}

TEST(SchedulePropertyTest, InterleavedBubbleShrinksWithTheNumberOfChunks) {
  for (int v = 1; v <= 4; ++v) {
    EXPECT_EQ(facts("interleaved", 4, 16, v).makespan, 3 * (16 * v + 3)) << v;
  }
}

TEST(ScheduleRefusalTest, NamesTheNearestValidChoice) {
  EXPECT_EQ(
      refusal("1f1", 2, 1, 2),
      "unknown schedule \"1f1\" (the name of a file would end in .csv); did you mean '1f1b'?");
  EXPECT_EQ(refusal("1f1b", 0, 1, 2), "schedule 1f1b: 0 pipeline ranks; use at least 1");
  EXPECT_EQ(refusal("1f1b", 2, 1, 0), "schedule 1f1b: 0 micro-batches; use at least 1");
  EXPECT_EQ(
      refusal("1f1b", 2, 2, 4),
      "schedule 1f1b has 1 stage per rank, but virtual_stages = 2; use virtual_stages = 1, or "
      "schedule = \"interleaved\"");
  EXPECT_EQ(refusal("zb-v", 2, 1, 4),
            "schedule zb-v has 2 stages per rank, but virtual_stages = 1; use virtual_stages = 2, "
            "or schedule = \"interleaved\"");
  EXPECT_EQ(
      refusal("interleaved", 4, 2, 3),
      "schedule interleaved: 3 micro-batches are fewer than the 4 ranks; use 4 micro-batches, "
      "or schedule = \"1f1b\"");
  EXPECT_EQ(refusal("interleaved", 4, 2, 9),
            "schedule interleaved: groups of 4 leave 1 of 9 micro-batches for the last one, fewer "
            "than the 4 ranks; use 8 or 12 micro-batches, or schedule_group = 5");
  EXPECT_EQ(refusal("interleaved", 4, 2, 8, 3),
            "schedule interleaved: groups of 3 micro-batches, but a group has at least 4 (the "
            "ranks) and at most 8 (the micro-batches); use schedule_group = 4");
  EXPECT_EQ(refusal("interleaved", 4, 2, 8, 100),
            "schedule interleaved: groups of 100 micro-batches, but a group has at least 4 (the "
            "ranks) and at most 8 (the micro-batches); use schedule_group = 8");
  EXPECT_EQ(
      refusal("dualpipe-v", 4, 2, 7),
      "schedule dualpipe-v: 7 micro-batches, but the two ends of the pipeline fill with 2 for "
      "each of the 4 ranks; use 8 micro-batches, or schedule = \"zb-v\"");
  EXPECT_EQ(refusal("gpipe", 4096, 1, 1'000'000),
            "schedule gpipe: 4096 stages of 1000000 micro-batches are more than the 4194304 that a "
            "schedule is written out for; use at most 1024 micro-batches");
}

}  // namespace
}  // namespace tessera
