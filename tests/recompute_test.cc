// Computing values again changes no bit: the same kernels run on the same values.
#include <gtest/gtest.h>

#include "support/record.h"
#include "support/tiny.h"
#include "train/session/injection.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests

class RecomputeTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RecomputeTest, ChangesNoBit) {
  for (const char* dtype : {" dtype=f64", " dtype=f32", " dtype=bf16"}) {
    const std::string line = std::string(GetParam()) + dtype;
    const RunSpec spec = parse_case(line).spec;
    const SampleSource samples = random_samples(spec, "some");
    const std::vector<StepRecord> kept = record(spec, samples);
    ASSERT_GT(kept[0].grad_norm, 1e-3);
    for (const char* choice : {" recompute=norms", " recompute=light", " recompute=selective",
                               " recompute=full", " recompute=every-2"}) {
      SCOPED_TRACE(line + choice);
      expect_equal(record(parse_case(line + choice).spec, samples), kept, 0.0);
    }
  }
}

// Odd sizes: rows that fill no vector, several sequences and threads, gradients accumulated.
INSTANTIATE_TEST_SUITE_P(
    Meshes, RecomputeTest,
    ::testing::Values("dp=1 layers=3 hidden=20 ffn=21 head_dim=6",
                      "dp=1 layers=3 tied=true micro_batch=2 threads=2",
                      "dp=2 layers=3 global_batch=8", "dp=2 zero=1 layers=3",
                      "dp=2 zero=2 global_batch=8", "dp=2 zero=3 tied=true global_batch=8 layers=3",
                      "fsdp=2 zero=3 layers=4 global_batch=8 grad_reduce=step prefetch=2",
                      "tp=2 layers=3 kv_heads=2", "tp=2 sequence_parallel=true layers=3 tied=true",
                      "dp=2 fsdp=2 tp=2 zero=3 sequence_parallel=true layers=3 global_batch=8"),
    [](const auto& mesh) { return fmt::format("{:02}", mesh.index); });

// A collective that is repeated counts: without it the block is recomputed from another input than
// the first time, and the comparison says so.
TEST(RecomputeTest, ALostRepetitionIsFound) {
  for (const char* tensor : {"layers.1.attn_norm.full.again", "layers.0.o.sum.again"}) {
    SCOPED_TRACE(tensor);
    const RunSpec spec = parse_case("tp=2 sequence_parallel=true recompute=full").spec;
    ShortRun run = short_run(spec, random_samples(spec, "none"));
    const std::vector<StepRecord> oracle = record(on_one_rank(spec), run.samples);
    expect_equal(record_run(run), oracle, 1e-12);
    run.inject = parse_injection(fmt::format("drop-cast:tensor={}", tensor));
    double largest = 0;
    for (const Difference& d : differences(record_run(run)[0].gradients, oracle[0].gradients)) {
      largest = std::max(largest, d.relative);
    }
    EXPECT_GT(largest, 1e-3);
  }
}

}  // namespace
}  // namespace tessera
