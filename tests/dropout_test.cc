// Dropout draws the same masks whatever the mesh; a mask that knows only its rank is found out.
// The meshes themselves are lines of tests/equivalence/dropout.txt.
#include <gtest/gtest.h>

#include "support/record.h"
#include "support/tiny.h"
#include "train/session/injection.h"
#include "train/weights/weights.h"

namespace tessera {
namespace {

using testing::expect_equal;
using testing::on_one_rank;
using testing::parse_case;
using testing::random_samples;
using testing::record;
using testing::short_run;

double largest_gradient_difference(const std::vector<StepRecord>& a,
                                   const std::vector<StepRecord>& b) {
  double largest = 0;
  for (const Difference& d : differences(a[0].gradients, b[0].gradients)) {
    largest = std::max(largest, d.relative);
  }
  return largest;
}

// ---- the masks matter ----

TEST(DropoutTest, SeedsAndStepsDrawDifferentMasks) {
  RunSpec spec = parse_case("dp=1 dropout=0.3 attention_dropout=0.3").spec;
  const auto losses = [&](uint64_t seed) {
    spec.train.seed = seed;
    ShortRun run = short_run(spec, random_samples(spec, "none"));
    run.weights = initial_weights(spec.model, 1);  // the same for both seeds
    run.spec.optimizer.lr = 1e-30;                 // and for all steps
    run.constant_lr = true;
    // All steps see the samples of the first one.
    run.samples = [samples = run.samples, batch = spec.train.global_batch](
                      int64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) {
      samples(sample % batch, tokens, labels);
    };
    std::vector<double> result;
    for (const StepRecord& step : record_run(run)) result.push_back(step.loss);
    return result;
  };
  const std::vector<double> one = losses(1);
  const std::vector<double> two = losses(2);
  EXPECT_GT(std::abs(one[0] - two[0]), 1e-4 * one[0]) << "two seeds";
  EXPECT_GT(std::abs(one[0] - one[1]), 1e-4 * one[0]) << "two steps";
  EXPECT_EQ(one, losses(1));
}

TEST(DropoutTest, EachKindChangesTheResult) {
  const RunSpec off = parse_case("dp=1").spec;
  const SampleSource samples = random_samples(off, "none");
  const std::vector<StepRecord> plain = record(off, samples);
  for (const char* line : {"dp=1 dropout=0.2", "dp=1 attention_dropout=0.2"}) {
    EXPECT_GT(largest_gradient_difference(record(parse_case(line).spec, samples), plain), 1e-3)
        << line;
  }
}

TEST(DropoutTest, RecomputationDrawsTheSameBits) {
  for (const char* dtype : {" dtype=f64", " dtype=f32", " dtype=bf16"}) {
    const std::string line =
        std::string(
            "dp=2 tp=2 sequence_parallel=true layers=3 global_batch=8 dropout=0.2 "
            "attention_dropout=0.2") +
        dtype;
    const RunSpec spec = parse_case(line).spec;
    const SampleSource samples = random_samples(spec, "some");
    const std::vector<StepRecord> kept = record(spec, samples);
    for (const char* choice : {" recompute=selective", " recompute=full", " recompute=every-2"}) {
      SCOPED_TRACE(line + choice);
      expect_equal(record(parse_case(line + choice).spec, samples), kept, 0.0);
    }
  }
}

// ---- a mask keyed by the local index ----

struct Fault {
  const char* name;
  const char* mesh;
  const char* tensor;
};

const Fault kFaults[] = {
    {"OnReplicas", "dp=2 dropout=0.2", "layers.0.o.dropped"},
    {"OnShards", "fsdp=2 zero=3 dropout=0.2", "embed.dropped"},
    {"InMicroBatches", "dp=1 dropout=0.2", "layers.1.down.dropped"},
    {"OnSequenceParallelRanks", "tp=2 sequence_parallel=true dropout=0.2 global_batch=1",
     "layers.0.o.dropped"},
    {"OfAttentionOnReplicas", "dp=2 attention_dropout=0.2", "layers.1.attn"},
    {"InARecomputedBlock", "dp=2 dropout=0.2 recompute=full", "layers.0.o.dropped"},
};

class LocalMaskTest : public ::testing::TestWithParam<Fault> {};

TEST_P(LocalMaskTest, IsFoundByComparisonWithOneRank) {
  const Fault& fault = GetParam();
  RunSpec spec = parse_case(fault.mesh).spec;
  const SampleSource samples = random_samples(spec, "none");
  // One rank, one micro-batch: nothing there depends on how the batch is dealt.
  RunSpec alone = on_one_rank(spec);
  alone.train.micro_batch = alone.train.global_batch;
  resolve(alone);
  const std::vector<StepRecord> oracle = record(alone, samples);
  ShortRun run = short_run(spec, samples);
  EXPECT_LE(largest_gradient_difference(record_run(run), oracle), 1e-12);
  run.inject = parse_injection(fmt::format("local-mask:tensor={}", fault.tensor));
  EXPECT_GT(largest_gradient_difference(record_run(run), oracle), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Faults, LocalMaskTest, ::testing::ValuesIn(kFaults),
                         [](const auto& fault) { return std::string(fault.param.name); });

TEST(LocalMaskTest, NeedsSomethingThatDrops) {
  const RunSpec spec = parse_case("dp=2 dropout=0.2").spec;
  ShortRun run = short_run(spec, random_samples(spec, "none"));
  run.inject = parse_injection("local-mask:tensor=layers.0.q");
  EXPECT_THROW(record_run(run), ConfigError);
}

}  // namespace
}  // namespace tessera
