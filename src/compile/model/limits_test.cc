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

}  // namespace
}  // namespace tessera
