#include "sim/replay/replay_size.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "sim/replay/distinct_programs.h"
#include "sim/replay/step_replay.h"
#include "sim/testing/test_runs.h"

namespace tessera {
namespace {

// One bus for all.
RooflineMachine one_bus() {
  RooflineMachine machine = testing::two_nodes();
  machine.levels.resize(1);
  machine.levels[0].devices = 0;
  return machine;
}

TEST(ReplaySize, CountsWhatIsReplayed) {
  const testing::Compiled run = testing::run_of("dp=4");
  const RooflineTimes times(one_bus());
  const RankClasses all = one_class_each(4);
  const ReplaySize size = replay_size(run.programs, times, all);
  size_t instructions = 0;
  for (const auto& program : run.programs.distinct) instructions += program->instructions.size();
  EXPECT_EQ(size.instructions, static_cast<double>(instructions));
  EXPECT_GT(size.link_visits, 0);
  EXPECT_EQ(size.members, 16);
  EXPECT_NO_THROW(require_bounded(size, all, /*folded=*/false));
}

TEST(ReplaySize, RefusesAllOfManyRanksButNotTheirClasses) {
  RunSpec spec = testing::small_spec("dp=4096,fsdp=4");
  spec.train.global_batch = spec.parallel.replicas();
  const StepGraph step = build_step(testing::resolved(spec), StepKind::kTraining);
  const RankPrograms programs = distinct_programs(step);
  const RooflineTimes times(testing::two_nodes());
  EXPECT_NO_THROW(replay_step(programs, times, {}));
  try {
    replay_step(programs, times, {.fold = false});
    FAIL() << "must be refused";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("leave out --all-ranks"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tessera
