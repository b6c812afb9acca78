#include "train/machine/step_bench.h"

#include <gtest/gtest.h>

#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "train/machine_defaults.h"

namespace tessera {
namespace {

CompiledRun tiny_run() {
  const std::vector<std::string> keys = {"model.layers=2", "model.hidden=32", "model.ffn=48",
                                         "model.heads=2",  "model.vocab=64",  "train.seq_len=8",
                                         "train.threads=1"};
  RunSpec spec = parse_run_file("", "tiny", keys, {});
  resolve(spec);
  return compile_here(spec);
}

TEST(StepBenchTest, CompanyChangesNothingButTime) {
  const CompiledRun run = tiny_run();
  const StepBenchResult alone = bench_step(run, {.steps = 2, .warmup = 1, .probed = 2});
  const StepBenchResult together =
      bench_step(run, {.steps = 2, .warmup = 1, .probed = 2, .company = 2});
  EXPECT_EQ(alone.loss, together.loss);
  EXPECT_EQ(alone.measured, together.measured);
  EXPECT_EQ(together.step_s.size(), 2U);
}

TEST(StepBenchTest, InstructionsAddUpToLessThanTheStep) {
  const CompiledRun run = tiny_run();
  const StepBenchResult result = bench_step(run, {.steps = 1, .warmup = 1, .probed = 3});
  ASSERT_EQ(result.mean_instruction_s.size(), run.programs.front().instructions.size());
  double sum = 0;
  for (const double seconds : result.mean_instruction_s) {
    EXPECT_GE(seconds, 0);
    sum += seconds;
  }
  EXPECT_GT(sum, 0);
  EXPECT_LE(sum, result.probed_step_s);
}

}  // namespace
}  // namespace tessera
