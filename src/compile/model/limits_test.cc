#include "compile/model/limits.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

TEST(LimitsTest, RefusesWhatNoMemoryHolds) {
  RunSpec deep = testing::small_spec("dp=1");
  deep.model.layers = 1'000'000'000;
  EXPECT_THROW(build_step(testing::resolved(deep), StepKind::kTraining), ConfigError);

  RunSpec wide = testing::small_spec("dp=4096,fsdp=4096");
  const RunSpec resolved = testing::resolved(wide);
  EXPECT_THROW(require_writable_programs(resolved), ConfigError);

  RunSpec long_step = testing::small_spec("dp=1");
  long_step.train.global_batch = 4'000'000;
  try {
    require_writable_programs(testing::resolved(long_step));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(std::string(error.what()),
              "the programs of 1 ranks would go through 8e+06 blocks and micro-batches, more than "
              "2097152 can be written down; use fewer ranks or layers, a larger micro_batch, or a "
              "smaller global_batch");
  }
  EXPECT_NO_THROW(require_writable_programs(testing::resolved(testing::small_spec("dp=4,tp=2"))));
}

// Bounds rest on it: it may be too much, never too little.
TEST(LimitsTest, EstimatesAtLeastAsManyInstructionsAsThereAre) {
  for (const char* mesh :
       {"dp=1", "dp=2,tp=2,zero=1,sequence_parallel=true", "fsdp=4,zero=3", "cp=4", "pp=2,dp=2",
        "cp=2,cp_kind=ulysses,tp=2", "pp=2,schedule=zb-h1", "fsdp=2,zero=3,recompute=full,cp=2"}) {
    for (const int64_t chunk : {512, 2}) {
      RunSpec spec = testing::small_spec(mesh);
      spec.model.layers = 6;
      spec.train.loss_chunk = chunk;
      spec.train.global_batch = 3 * spec.parallel.replicas();
      spec = testing::resolved(spec);
      double counted = 0;
      for (const Program& program : compile_ranks(build_step(spec, StepKind::kTraining))) {
        counted += static_cast<double>(program.instructions.size());
      }
      const double estimated = estimated_instructions(
          spec, static_cast<double>(spec.parallel.world() / spec.parallel.pp));
      EXPECT_GE(estimated, counted) << mesh << ", chunks of " << chunk;
      EXPECT_LE(estimated, 4 * counted) << mesh << ", chunks of " << chunk;
    }
  }
}

std::string why_not_simulated(RunSpec spec) {
  try {
    require_simulatable(testing::resolved(std::move(spec)));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(LimitsTest, SaysWhichStepsAreTooLargeToSimulate) {
  RunSpec spec = testing::small_spec("pp=2");
  EXPECT_EQ(why_not_simulated(spec), "");
  spec.train.global_batch = 1 << 20;
  EXPECT_EQ(why_not_simulated(spec),
            "a step of 2 layers, 1048576 micro-batches and 1 chunks of the loss in each has about "
            "1.43e+08 instructions to build and simulate, more than the 1310720 that are; use a "
            "smaller global_batch, fewer layers, a larger train.loss_chunk or a shorter seq_len. "
            "'tessera plan --cluster' prices steps of any size, --schedule-only shows the pipeline "
            "alone");
  RunSpec deep = testing::small_spec("pp=2");
  deep.model.layers = 20'000;
  deep.train.global_batch = 64;
  EXPECT_NE(why_not_simulated(deep), "");
  RunSpec chunked = testing::small_spec("dp=1");
  chunked.train.seq_len = 1 << 30;
  EXPECT_NE(why_not_simulated(chunked).find("2097152 chunks of the loss"), std::string::npos);
  chunked.train.loss_chunk = 1 << 30;
  EXPECT_NE(why_not_simulated(chunked).find("attention over train.seq_len = 1073741824"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
