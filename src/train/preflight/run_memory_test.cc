#include "train/preflight/run_memory.h"

#include <gtest/gtest.h>

#include "plan/report/misfit_text.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "train/machine_defaults.h"

namespace tessera {
namespace {

// On a machine that need not be this one.
RunSpec some_run(std::vector<std::string> set = {}) {
  RunSpec spec = parse_run_file(
      "[model]\npreset = \"tiny-3m\"\n[parallel]\ndp = 4\n[train]\nmicro_batch = 8\nglobal_batch = "
      "32\nthreads = 1\n"
      "device = \"cpu\"\n",
      "run.toml", set, {});
  resolve(spec);
  return spec;
}

SharedMemory host_with(int64_t available, int64_t planned, int64_t other = 0) {
  return {.ranks = 4,
          .planned_bytes = planned,
          .other_bytes = other,
          .memory = {.total_bytes = 2 * available, .available_bytes = available}};
}

TEST(RunMemoryTest, AllRanksAreAddedUp) {
  const RunSpec spec = some_run();
  const PlannedMemory memory = planned_memory(spec);
  EXPECT_EQ(memory.all_ranks, 4 * memory.fullest_rank);
  // Each rank fits alone; together they do not.
  const SharedMemory host = host_with(3 * memory.fullest_rank, memory.all_ranks);
  EXPECT_FALSE(host.suffices());
  EXPECT_TRUE(host_with(memory.all_ranks, memory.all_ranks).suffices());
  EXPECT_FALSE(host_with(memory.all_ranks, memory.all_ranks, /*other=*/1).suffices());
}

TEST(RunMemoryTest, AdviceFitsAsItIsPrinted) {
  const RunSpec spec = some_run();
  const int64_t planned = planned_memory(spec).all_ranks;
  const SharedMemory host = host_with(planned * 3 / 4, planned);
  const Plan plan = plan_within(spec, {}, host);
  EXPECT_FALSE(plan.fits());
  const std::string text = misfit_text(plan);
  EXPECT_NE(text.find("this machine's"), std::string::npos) << text;
  EXPECT_NE(text.find(", shared by 4 ranks, and "), std::string::npos) << text;
  ASSERT_TRUE(plan.advice.has_value());
  ASSERT_FALSE(plan.advice->changes.empty()) << text;
  for (const FitChange& change : plan.advice->changes) {
    const RunSpec changed = some_run(change.settings);
    EXPECT_LE(planned_memory(changed).all_ranks, host.memory.available_bytes) << set_flags(change);
    EXPECT_EQ(planned_memory(changed).fullest_rank, change.peak_bytes) << set_flags(change);
  }
}

// More ranks on the same machine have no more memory: the way out is more machines.
TEST(RunMemoryTest, NothingFitsOnAMachineThatIsFarTooSmall) {
  const RunSpec spec = some_run();
  const SharedMemory host = host_with(8 << 20, planned_memory(spec).all_ranks);
  const std::string text = misfit_text(plan_within(spec, {}, host));
  EXPECT_NE(text.find("no change of up to three settings makes it fit"), std::string::npos) << text;
  EXPECT_EQ(text.find(" devices would do"), std::string::npos) << text;
}

TEST(MachineDefaultsTest, AGroupIsNamedAsTheOneThatLimits) {
  const HostMemory machine{.total_bytes = int64_t{16} << 30};
  EXPECT_EQ(shared_memory_text(machine.total_bytes, machine, 4),
            "this machine's 16.0 GiB, shared by 4 ranks");
  const HostMemory group{.total_bytes = int64_t{4} << 30, .group = "/sys/fs/cgroup/job"};
  EXPECT_EQ(shared_memory_text(group.total_bytes, group, 1), "its control group's 4.0 GiB");
}

// A GPU belongs to one rank: a run for many is planned with all of one for each.
TEST(MachineDefaultsTest, AGpuIsNeverDividedByTheRanks) {
  RunSpec many = some_run({"parallel.dp=16", "train.device=cuda", "train.global_batch=128"});
  RunSpec one = some_run({"parallel.dp=1", "train.device=cuda", "train.global_batch=32"});
  use_machine_defaults(many);
  use_machine_defaults(one);
  EXPECT_EQ(many.cluster.memory_gib, one.cluster.memory_gib);
}

}  // namespace
}  // namespace tessera
