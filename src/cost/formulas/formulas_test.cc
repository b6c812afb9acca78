// The closed forms against what is played through, scheduled and compiled.
#include <gtest/gtest.h>

#include <cmath>

#include "collective/cost.h"
#include "compile/pipeline/schedule/replay.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"
#include "cost/formulas/activations.h"
#include "cost/formulas/bubbles.h"
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
