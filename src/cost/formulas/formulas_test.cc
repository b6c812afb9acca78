// The closed forms against what is played through, scheduled and compiled.
#include <gtest/gtest.h>

#include <cmath>

#include "collective/cost.h"
#include "compile/pipeline/schedule/replay.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"
#include "cost/formulas/activations.h"
#include "cost/formulas/bubbles.h"
#include "cost/formulas/failure_replay.h"
#include "cost/formulas/power.h"
#include "cost/formulas/rings.h"
#include "cost/formulas/states.h"

namespace tessera {
namespace {

TEST(BubbleTest, FormulasAreWhatTheSchedulesDo) {
  int compared = 0;
  for (const PipelineKind schedule :
       {PipelineKind::kNaive, PipelineKind::kGPipe, PipelineKind::k1F1B, PipelineKind::kInterleaved,
        PipelineKind::kZbH1, PipelineKind::kZbH2}) {
    for (const int64_t ranks : {2, 3, 4, 8}) {
      for (const int64_t micro_batches : {1, 2, 4, 7, 8, 16, 24, 33}) {
        for (const int64_t v : {1, 2, 3}) {
          for (const BubbleTimes times : {BubbleTimes{1, 1, 1}, BubbleTimes{2, 3, 1}}) {
            const bool interleaved = schedule == PipelineKind::kInterleaved;
            if (interleaved != (v > 1)) continue;
            const BubbleShape shape{schedule, ranks, micro_batches, v, times};
            const std::optional<Bubble> bubble = closed_form_bubble(shape);
            if (!bubble) continue;
            EXPECT_NEAR(play(shape).bubble, bubble->share, 1e-12)
                << name_of(schedule) << " P=" << ranks << " M=" << micro_batches << " v=" << v
                << " W=" << times.weight_grad;
            ++compared;
          }
        }
      }
    }
  }
  EXPECT_GE(compared, 200);
}

TEST(BubbleTest, FewestMicroBatchesAreTheFewest) {
  for (const double ranks : {2.0, 4.0, 8.0, 64.0}) {
    for (const double share : {0.5, 0.1, 0.05, 0.01}) {
      const double m = fewest_micro_batches(ranks, share);
      EXPECT_LT((ranks - 1) / (m + ranks - 1), share);
      if (m == 1) continue;
      EXPECT_GE((ranks - 1) / (m - 1 + ranks - 1), share * (1 - 1e-15));
    }
  }
}

TEST(BubbleTest, InFlightIsWhatTheScheduleHolds) {
  for (const int64_t micro_batches : {2, 4, 9}) {
    const ScheduleFacts facts = play({PipelineKind::k1F1B, 4, micro_batches, 1, {}});
    for (size_t stage = 0; stage < 4; ++stage) {
      EXPECT_EQ(facts.ranks[stage].peak_live,
                one_f_one_b_in_flight(4, micro_batches, static_cast<int64_t>(stage)));
    }
  }
}

TEST(RingTest, BytesAreThoseOfOurAlgorithms) {
  for (const int ranks : {2, 3, 4, 8}) {
    const int64_t count = int64_t{ranks} * 1 << 16;
    const CostShape whole{ranks, count, 4, 0};
    const auto bytes = static_cast<double>(count * 4);
    EXPECT_EQ(ring_all_reduce_bytes(bytes, ranks),
              static_cast<double>(
                  closed_form_cost(CollectiveOp::kAllReduce, Algorithm::kRing, whole).bytes_sent));
    // There the count is of one rank's part.
    const CostShape part{ranks, count / ranks, 4, 0};
    for (const CollectiveOp op : {CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}) {
      EXPECT_EQ(ring_all_gather_bytes(bytes, ranks),
                static_cast<double>(closed_form_cost(op, Algorithm::kRing, part).bytes_sent));
    }
    EXPECT_EQ(2 * tree_rounds(ranks),
              closed_form_cost(CollectiveOp::kAllReduce, Algorithm::kTree, whole).steps);
  }
}

TEST(RingTest, TreesWinBelowTheCrossover) {
  const LinkRate link{25e9, 1e-5};
  for (const double ranks : {8.0, 64.0, 1000.0}) {
    const double bytes = tree_wins_below(ranks, link);
    EXPECT_LT(tree_all_reduce_s(bytes * 0.9, ranks, link),
              ring_all_reduce_s(bytes * 0.9, ranks, link));
    EXPECT_GT(tree_all_reduce_s(bytes * 1.1, ranks, link),
              ring_all_reduce_s(bytes * 1.1, ranks, link));
  }
  EXPECT_EQ(tree_wins_below(2, link), 0) << "one message either way";
  EXPECT_EQ(tree_all_reduce_s(1e6, 1, link), 0);
}

// A program's arenas hold the table's bytes: f32 has no copy of its weights.
TEST(StatesTest, ZeroBytesAreThoseOfAProgram) {
  const StateBytes bytes{4, 4, 0, 8};
  constexpr int64_t kMicroBatches = 2;
  for (int stage = 0; stage < kZeroStages; ++stage) {
    RunSpec spec = testing::small_spec(fmt::format("dp=4,zero={}", stage));
    spec.model.hidden = 64;
    spec.model.head_dim = 16;
    spec.model.vocab = 256;
    spec.train.global_batch = kMicroBatches * spec.parallel.replicas();
    const StepGraph step = build_step(testing::resolved(std::move(spec)), StepKind::kTraining);
    const Program program = lower(step, 0);
    int64_t weights = 0;  // with padding
    for (const Bucket& bucket : step.layout.buckets) weights += bucket.numel;
    int64_t states = 0;
    for (const ArenaKind arena :
         {ArenaKind::kParameters, ArenaKind::kGradients, ArenaKind::kOptimizer}) {
      states += program.arena_bytes[static_cast<size_t>(arena)];
    }
    EXPECT_EQ(static_cast<double>(states),
              bytes_per_parameter(bytes, stage, 4) * static_cast<double>(weights))
        << stage;
  }
}

TEST(StatesTest, FewestShardsAreTheFewest) {
  const StateBytes bytes;
  for (int stage = 1; stage < kZeroStages; ++stage) {
    for (const double parameters : {1e9, 7e9, 19e9, 70e9}) {
      const double shards = fewest_shards(bytes, stage, parameters, 80e9);
      if (shards == 0) {
        EXPECT_GT(bytes_per_parameter(bytes, stage, 1e15) * parameters, 80e9 * (1 - 1e-12));
        continue;
      }
      EXPECT_LE(bytes_per_parameter(bytes, stage, shards) * parameters, 80e9);
      if (shards > 1) {
        EXPECT_GT(bytes_per_parameter(bytes, stage, shards - 1) * parameters, 80e9);
      }
    }
  }
  EXPECT_EQ(fewest_shards(bytes, 0, 70e9, 80e9), 0) << "nothing is split";
}

TEST(ActivationsTest, TermsAreThoseOfThePaper) {
  const BlockShape gpt3{1, 2048, 12288, 96, 8, 1};
  const double sbh = 2048.0 * 12288;
  EXPECT_DOUBLE_EQ(block_bytes(gpt3, Kept::kAll, false), sbh * (10 + 24.0 / 8 + 5 * 16.0 / 8));
  EXPECT_DOUBLE_EQ(block_bytes(gpt3, Kept::kAll, true), sbh * (34.0 / 8 + 5 * 16.0 / 8));
  EXPECT_DOUBLE_EQ(block_bytes(gpt3, Kept::kFull, false), 2 * sbh);
  BlockShape half = gpt3;
  half.cp = 2;
  EXPECT_DOUBLE_EQ(block_bytes(half, Kept::kSelective, true),
                   block_bytes(gpt3, Kept::kSelective, true) / 2);
}

// Numbers of the literature: Young's square root, and the interval that Daly's form corrects it to.
TEST(FailuresTest, IntervalsOfYoungAndDaly) {
  const FailureModel model{.mtbf = 24 * 3600, .stall = 300, .restart = 600};
  EXPECT_DOUBLE_EQ(young_interval(model), std::sqrt(2.0 * 300 * 86400));
  EXPECT_NEAR(daly_interval(model), 7001.389, 1e-3);
  EXPECT_NEAR(best_interval(model), daly_interval(model), 1e-3 * best_interval(model));
  // The slope of the goodput is 0 where e^((t+s)/M) (1 - t/M) = 1.
  const double t = best_interval(model) / model.mtbf;
  EXPECT_NEAR(std::exp(t + model.stall / model.mtbf) * (1 - t), 1, 1e-6);
}

TEST(FailuresTest, TheClosedFormIsTheMeanOfRunsThatArePlayed) {
  for (const FailureModel model :
       {FailureModel{.mtbf = 10'000, .stall = 30, .restart = 300},
        FailureModel{.mtbf = 4'000, .stall = 100, .restart = 900},
        FailureModel{.mtbf = 50'000, .stall = 5, .write = 200, .restart = 60}}) {
    for (const double factor : {0.3, 1.0, 3.0}) {
      const double interval = factor * best_interval(model);
      double useful = 0, total = 0;
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const FailureReplay replay =
            replay_failures({.model = model, .interval = interval, .work = 300 * model.mtbf}, seed);
        EXPECT_TRUE(replay.finished);
        EXPECT_NEAR(replay.of(RunPhase::kTrain), 300 * model.mtbf, 1e-6 * replay.total);
        useful += replay.of(RunPhase::kTrain);
        total += replay.total;
      }
      EXPECT_NEAR(useful / total, goodput(model, interval), 0.02 * goodput(model, interval))
          << model.mtbf << " " << factor;
    }
  }
}

TEST(FailuresTest, SpansOfARunHaveNoGapsAndAreItsSeconds) {
  const FailingRun run{.model = {.mtbf = 3000, .stall = 20, .write = 400, .restart = 100},
                       .interval = 600,
                       .work = 200'000,
                       .spares = 1,
                       .repair = 4000};
  const FailureReplay replay = replay_failures(run, 7, true);
  EXPECT_GT(replay.failures, 10);
  EXPECT_GT(replay.of(RunPhase::kWait), 0) << "one spare is too few";
  double at = 0, seconds[kNumRunPhases] = {};
  for (const RunSpan& span : replay.spans) {
    EXPECT_NEAR(span.begin, at, 1e-6);
    EXPECT_GT(span.end, span.begin);
    seconds[static_cast<int>(span.phase)] += span.end - span.begin;
    at = span.end;
  }
  EXPECT_NEAR(at, replay.total, 1e-6);
  for (int phase = 0; phase < kNumRunPhases; ++phase) {
    EXPECT_NEAR(seconds[phase], replay.seconds[phase], 1e-5) << phase;
  }
  EXPECT_EQ(replay_failures(run, 7).total, replay.total) << "the same with and without spans";
  EXPECT_NE(replay_failures(run, 8).total, replay.total);
}

TEST(FailuresTest, ARunThatNeverEndsIsGivenUp) {
  const FailureReplay replay = replay_failures(
      {.model = {.mtbf = 1, .stall = 10, .restart = 10}, .interval = 100, .work = 1e6}, 1);
  EXPECT_FALSE(replay.finished);
  EXPECT_EQ(replay.failures, kMostFailures);
}

TEST(PowerTest, AgreesWithTheLibraryTo14Digits) {
  for (double base = 0.03; base < 200; base *= 1.37) {
    EXPECT_NEAR(natural_log(base), std::log(base), 1e-14 * (1 + std::abs(std::log(base)))) << base;
    for (double exponent = -4.3; exponent < 9; exponent += 0.7) {
      const double expected = std::pow(base, exponent);
      EXPECT_NEAR(power(base, exponent), expected, 1e-13 * expected) << base << "^" << exponent;
    }
  }
  EXPECT_EQ(power(10, 5), 1e5) << "whole powers are exact";
}

}  // namespace
}  // namespace tessera
