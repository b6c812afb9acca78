#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/philox.h"
#include "compile/pipeline/schedule/schedule.h"

namespace tessera {
namespace {

using Change = std::function<void(PipelineSchedule&)>;

// What the check says of a 1F1B schedule (2 ranks, 2 micro-batches) after `change`:
//   rank 0: F0.0 F0.1 B0.0 B0.1
//   rank 1: F1.0 B1.0 F1.1 B1.1
std::string finding(const Change& change) {
  PipelineSchedule schedule = make_schedule("1f1b", 2, 1, 2);
  change(schedule);
  try {
    check_schedule(schedule);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "valid";
}

TEST(CheckScheduleTest, AcceptsWhatIsComplete) {
  EXPECT_EQ(finding([](PipelineSchedule&) {}), "valid");
}

TEST(CheckScheduleTest, AcceptsASplitBackward) {
  EXPECT_EQ(finding([](PipelineSchedule& s) {
              s.actions[0] = {{StagePass::kForward, 0, 0},
                              {StagePass::kForward, 0, 1},
                              {StagePass::kInputGrad, 0, 0},
                              {StagePass::kBackward, 0, 1},
                              {StagePass::kWeightGrad, 0, 0}};
            }),
            "valid");
}

TEST(CheckScheduleTest, MarksADoubledCell) {
  EXPECT_EQ(finding([](PipelineSchedule& s) { s.actions[1][2] = s.actions[1][0]; }),
            "schedule 1f1b: rank 1, cell 3 (F1.0): it is there twice\n"
            "  rank 0: F0.0 F0.1 B0.0 B0.1\n"
            "  rank 1: F1.0 B1.0 [F1.0] B1.1");
}

TEST(CheckScheduleTest, NamesAMissingCell) {
  EXPECT_EQ(finding([](PipelineSchedule& s) { s.actions[0].pop_back(); }),
            "schedule 1f1b: rank 0, cell 4 (the end): B0.1 is missing\n"
            "  rank 0: F0.0 F0.1 B0.0 [end]\n"
            "  rank 1: F1.0 B1.0 F1.1 B1.1");
}

TEST(CheckScheduleTest, NamesAMissingWeightGradient) {
  const std::string text =
      finding([](PipelineSchedule& s) { s.actions[0][3].pass = StagePass::kInputGrad; });
  EXPECT_NE(text.find("W0.1 is missing"), std::string::npos) << text;
}

TEST(CheckScheduleTest, RefusesABadOrder) {
  const auto says = [](const Change& change, const std::string& part) {
    const std::string text = finding(change);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says([](PipelineSchedule& s) { std::swap(s.actions[1][0], s.actions[1][1]); },
       "rank 1, cell 1 (B1.0): it comes before its forward (F)");
  says([](PipelineSchedule& s) { s.actions[0][2].pass = StagePass::kWeightGrad; },
       "rank 0, cell 3 (W0.0): it comes before its input gradient (I)");
  says(
      [](PipelineSchedule& s) {
        s.actions[0].push_back({StagePass::kInputGrad, 0, 0});
      },
      "rank 0, cell 5 (I0.0): a whole backward (B) has been done before");
  says(
      [](PipelineSchedule& s) {
        s.actions[0].insert(s.actions[0].begin() + 2, {StagePass::kInputGrad, 0, 0});
      },
      "rank 0, cell 4 (B0.0): its input gradient (I) has been done before; use W here, or B alone");
}

TEST(CheckScheduleTest, RefusesPlacesThatAreNotThere) {
  const auto says = [](const Change& change, const std::string& part) {
    const std::string text = finding(change);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says([](PipelineSchedule& s) { s.actions[0][0].stage = 2; },
       "rank 0, cell 1 (F2.0): there is no stage 2; use 0 to 1");
  says([](PipelineSchedule& s) { s.actions[0][0].micro_batch = 2; },
       "rank 0, cell 1 (F0.2): there is no micro-batch 2; use 0 to 1");
  says([](PipelineSchedule& s) { s.actions[0][0].stage = 1; },
       "rank 0, cell 1 (F1.0): stage 1 is on rank 1");
  says([](PipelineSchedule& s) { s.rank_of_stage[1] = 2; }, "stage 1 is on rank 2; use 0 to 1");
  says([](PipelineSchedule& s) { s.actions.pop_back(); }, "2 ranks have 1 lists; one each");
  says([](PipelineSchedule& s) { s.micro_batches = 0; }, "there must be a micro-batch");
}

TEST(CheckScheduleTest, FindsRanksThatWaitForEachOther) {
  // Rank 0 wants the gradient of micro-batch 0 first; rank 1 wants the output of 1 before it.
  EXPECT_EQ(finding([](PipelineSchedule& s) {
              std::swap(s.actions[0][1], s.actions[0][2]);
              s.actions[1] = {{StagePass::kForward, 1, 0},
                              {StagePass::kForward, 1, 1},
                              {StagePass::kBackward, 1, 0},
                              {StagePass::kBackward, 1, 1}};
            }),
            "schedule 1f1b: ranks wait for each other for ever: rank 0 at cell 2 (B0.0) waits for "
            "the input gradient of micro-batch 0 from rank 1, stage 1; rank 1 at cell 2 (F1.1) "
            "waits for the output of micro-batch 1 from rank 0, stage 0\n"
            "  rank 0: F0.0 [B0.0] F0.1 B0.1\n"
            "  rank 1: F1.0 [F1.1] B1.0 B1.1");
}

TEST(CheckScheduleTest, ShowsTheNeighbourhoodOfACellInALongList) {
  PipelineSchedule schedule = make_schedule("gpipe", 1, 1, 100);
  schedule.actions[0][50] = schedule.actions[0][49];
  try {
    check_schedule(schedule);
    FAIL() << "the doubled cell was not found";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "schedule gpipe: rank 0, cell 51 (F0.49): it is there twice\n"
                 "  rank 0: … F0.42 F0.43 F0.44 F0.45 F0.46 F0.47 F0.48 F0.49 [F0.49] F0.51 F0.52 "
                 "F0.53 F0.54 F0.55 F0.56 F0.57 F0.58 …");
  }
}

// Swaps of neighbours may leave a valid schedule; a lost or changed cell never does.
TEST(CheckScheduleTest, RandomDamageIsFoundOrHarmless) {
  const auto refuses = [](const PipelineSchedule& schedule) {
    try {
      check_schedule(schedule);
    } catch (const ConfigError&) {
      return true;
    }
    return false;
  };
  int harmless = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    uint64_t drawn = 0;
    const auto below = [&](size_t limit) {
      return static_cast<size_t>(uniform_at(seed, 0, drawn++) * static_cast<double>(limit));
    };
    const char* const names[] = {"1f1b", "interleaved", "zb-h2", "zb-v", "dualpipe-v"};
    const PipelineSchedule schedule = make_schedule(names[seed % 5], 3, 0, 6);
    const size_t rank = below(3);
    const size_t cells = schedule.actions[rank].size();

    PipelineSchedule swapped = schedule;
    const size_t at = below(cells - 1);
    std::swap(swapped.actions[rank][at], swapped.actions[rank][at + 1]);
    harmless += refuses(swapped) ? 0 : 1;

    PipelineSchedule lost = schedule;
    lost.actions[rank].erase(lost.actions[rank].begin() + static_cast<int64_t>(below(cells)));
    EXPECT_TRUE(refuses(lost)) << seed;

    PipelineSchedule changed = schedule;
    changed.actions[rank][below(cells)].micro_batch += 1;
    EXPECT_TRUE(refuses(changed)) << seed;
  }
  EXPECT_GT(harmless, 20);
  EXPECT_LT(harmless, 380);
}

}  // namespace
}  // namespace tessera
