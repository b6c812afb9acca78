#include "sim/replay/cluster_times.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "compile/testing/test_spec.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "cost/step/collective_time.h"
#include "cost/step/op_time.h"
#include "sim/replay/distinct_programs.h"
#include "sim/replay/step_replay.h"

namespace tessera {
namespace {

struct Compiled {
  StepGraph step;
  RankPrograms programs;
};

Compiled compiled(const std::string& mesh, ModelFamily family = ModelFamily::kLlama) {
  RunSpec spec = testing::small_spec(mesh);
  spec.model.family = family;
  if (family == ModelFamily::kMixtral) spec.model.experts = 4;
  spec.train.dtype = DType::kBF16;
  spec.train.global_batch = 2 * spec.parallel.replicas();
  Compiled result;
  result.step = build_step(testing::resolved(std::move(spec)), StepKind::kTraining);
  result.programs = distinct_programs(result.step);
  return result;
}

EngineNumbers engine() { return find_engine("tessera").numbers; }

const Instruction& first(const Program& program, OpKind op) {
  const auto found =
      std::find_if(program.instructions.begin(), program.instructions.end(),
                   [op](const Instruction& instruction) { return instruction.op == op; });
  EXPECT_NE(found, program.instructions.end());
  return *found;
}

TEST(ClusterTimesTest, ProductsTakeWhatTheirShapeCosts) {
  const Cluster cluster = find_cluster("h100");
  const ClusterTimes times(cluster, engine(), DType::kBF16, no_contention());
  const Compiled run = compiled("dp=1");
  const Program& program = *run.programs.distinct[0];
  // 8 tokens, hidden 16, ffn 24: gate and up together.
  const double expected = product_s(cluster.device, engine(), MathType::kF16, 8, 16, 16);
  EXPECT_EQ(times.kernel_s(program, first(program, OpKind::kLinear)),
            std::max(expected, cluster.device.launch_s.value));
  EXPECT_GE(times.kernel_s(program, first(program, OpKind::kRmsNorm)),
            cluster.device.launch_s.value);
}

TEST(ClusterTimesTest, CollectivesTakeLatencyAndWireOfTheCostModel) {
  const Cluster cluster = with_devices(find_cluster("h100"), 16);
  const ClusterTimes times(cluster, engine(), DType::kBF16, no_contention());
  const Compiled run = compiled("tp=2");
  const Program& program = *run.programs.distinct[0];
  const auto found = std::find_if(
      program.instructions.begin(), program.instructions.end(), [](const Instruction& i) {
        return i.stream == StreamKind::kComm && i.collective == CastKind::kAllReduce;
      });
  ASSERT_NE(found, program.instructions.end());
  const double bytes = static_cast<double>(program.buffer(found->inputs[0]).bytes());
  const TransferTime near = times.transfer(program, *found, {0, 1});
  EXPECT_NEAR(near.latency_s + near.wire_s, all_reduce_s(cluster, {2, 1}, bytes), 1e-15);
  EXPECT_EQ(near.level, 0);
  const TransferTime far = times.transfer(program, *found, {0, 8});
  EXPECT_NEAR(far.latency_s + far.wire_s, all_reduce_s(cluster, {2, 8}, bytes), 1e-15);
  EXPECT_EQ(far.level, 1);
  EXPECT_GT(far.latency_s, near.latency_s);
}

TEST(ClusterTimesTest, ABusIsSharedByThoseWhoTalk) {
  const Cluster cluster = with_devices(find_cluster("cpu"), 4);
  ASSERT_EQ(cluster.levels.front().shape, LinkShape::kShared);
  const Compiled run = compiled("dp=4");
  const ClusterTimes times(cluster, engine(), DType::kF32, no_contention());
  EXPECT_EQ(times.link_of(0, 0), times.link_of(3, 0));
  const Program& program = run.programs.program(0);
  const auto& list = program.instructions;
  const auto sum = std::find_if(list.begin(), list.end(), [](const Instruction& i) {
    return i.stream == StreamKind::kComm && i.collective == CastKind::kAllReduce;
  });
  ASSERT_NE(sum, list.end());
  // Alone it takes what the cost model says, of which each of the four has a quarter of the bus.
  const auto bytes = static_cast<double>(program.buffer(sum->inputs[0]).bytes());
  const TransferTime time = times.transfer(program, *sum, {0, 1, 2, 3});
  EXPECT_NEAR(time.latency_s + 4 * time.wire_s, all_reduce_s(cluster, {4, 1}, bytes),
              1e-2 * time.wire_s);
}

TEST(ClusterTimesTest, EveryInstructionOfEveryMeshHasATime) {
  for (const char* name : {"h100", "a100", "tpu-v4", "cpu"}) {
    for (const char* mesh : {"pp=2,dp=2,tp=2,sequence_parallel=true", "fsdp=2,cp=2",
                             "cp=2,cp_kind=ulysses", "fsdp=2,tp=2,ep=2"}) {
      const bool experts = std::string(mesh).find("ep=") != std::string::npos;
      const Compiled run = compiled(mesh, experts ? ModelFamily::kMixtral : ModelFamily::kLlama);
      const ClusterTimes times(with_devices(find_cluster(name), run.programs.world()), engine(),
                               DType::kBF16, contention_of(engine()));
      const StepTimeline folded = replay_step(run.programs, times);
      EXPECT_GT(folded.makespan, 0) << name << " " << mesh;
      EXPECT_LT(folded.makespan, 10) << name << " " << mesh;
      const StepTimeline all = replay_step(run.programs, times, {.fold = false});
      EXPECT_NEAR(folded.makespan, all.makespan, 1e-9 * all.makespan) << name << " " << mesh;
    }
  }
}

TEST(ClusterTimesTest, RefusesTypesWithoutARate) {
  EXPECT_THROW(ClusterTimes(find_cluster("h100"), engine(), DType::kF64, no_contention()),
               ConfigError);
}

RunSpec context_spec(const std::string& mesh, int64_t window) {
  RunSpec spec = testing::small_spec(mesh);
  spec.train.seq_len = 64;
  spec.model.sliding_window = window;
  return testing::resolved(std::move(spec));
}

// Ranks of cp have other positions of a sequence, as many keys to look at, and one Program.
TEST(DistinctProgramsTest, RanksThatShareAProgramTakeItsTimes) {
  const ClusterTimes times(find_cluster("h100"), engine(), DType::kF32, no_contention());
  for (const char* mesh : {"cp=4", "cp=4,cp_kind=allgather", "cp=2,cp_kind=ulysses", "cp=2,tp=2"}) {
    for (const int64_t window : {0, 9}) {
      const StepGraph step = build_step(context_spec(mesh, window), StepKind::kTraining);
      const RankPrograms shared = distinct_programs(step);
      for (int rank = 0; rank < shared.world(); ++rank) {
        const Program own = lower(step, rank);
        const Program& taken = shared.program(rank);
        ASSERT_EQ(own.instructions.size(), taken.instructions.size());
        for (size_t i = 0; i < own.instructions.size(); ++i) {
          const Instruction& instruction = own.instructions[i];
          if (instruction.stream != StreamKind::kCompute) continue;
          ASSERT_EQ(times.kernel_s(own, instruction), times.kernel_s(taken, taken.instructions[i]))
              << mesh << ", window " << window << ", rank " << rank << ", " << instruction.name;
        }
      }
    }
  }
}

TEST(DistinctProgramsTest, AWindowTellsRanksOfCpApart) {
  const auto distinct = [](const std::string& mesh, int64_t window) {
    return distinct_programs(build_step(context_spec(mesh, window), StepKind::kTraining))
        .distinct.size();
  };
  EXPECT_EQ(distinct("cp=4", 0), 1U);
  EXPECT_EQ(distinct("cp=4", 9), 4U);
  EXPECT_EQ(distinct("cp=2,cp_kind=ulysses", 9), 1U);
  EXPECT_EQ(distinct("cp=4,cp_kind=allgather,pp=2", 0), 2U);
}

}  // namespace
}  // namespace tessera
