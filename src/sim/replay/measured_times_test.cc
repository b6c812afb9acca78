#include "sim/replay/measured_times.h"

#include <gtest/gtest.h>

#include "compile/step.h"
#include "compile/testing/test_spec.h"
#include "sim/replay/step_replay.h"

namespace tessera {
namespace {

RankPrograms programs_of(const std::string& mesh) {
  RunSpec spec = testing::small_spec(mesh);
  spec.model.layers = 4;
  spec.train.global_batch = 4 * spec.parallel.replicas();
  spec.train.threads = 1;
  return all_programs(
      compile_ranks(build_step(testing::resolved(std::move(spec)), StepKind::kTraining)));
}

// With so many threads at work everything takes so many times as long.
CoreSharing shared(int threads, double slowdown) {
  CoreSharing row{threads, {}};
  row.slowdown.fill(slowdown);
  return row;
}

// Every kernel takes 10 us alone, every collective 1 us; all slow down as `sharing` says.
MeasuredMachine machine(std::vector<CoreSharing> sharing) {
  MeasuredMachine result;
  result.source = "a test";
  result.cores = 2;
  result.sharing = std::move(sharing);
  TimeFit kernel;
  kernel.seconds[static_cast<size_t>(TimeTerm::kCall)] = 1e-5;
  for (const char* name : {"products", "attention", "norms", "activations", "loss", "optimizer",
                           "embedding", "routing", "movement"}) {
    for (const DType type : {DType::kF32, DType::kF64}) {
      result.kernels.push_back({std::string(kClassMark) + name, type, 1, kernel});
    }
  }
  TimeFit call;
  call.seconds[static_cast<size_t>(TimeTerm::kCall)] = 1e-6;
  for (const char* op : {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send"}) {
    result.collectives.push_back({op, "threads", 2, call});
  }
  return result;
}

double kernels_of(const Program& program) {
  double count = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.stream == StreamKind::kCompute) ++count;
  }
  return count;
}

double step_s(const RankPrograms& programs, const MeasuredMachine& measured) {
  return replay_step(programs, MeasuredTimes(measured, "threads")).makespan;
}

TEST(MeasuredTimesTest, OneRankIsTheSumOfItsKernels) {
  const RankPrograms programs = programs_of("dp=1");
  EXPECT_NEAR(step_s(programs, machine({shared(1, 1), shared(2, 3)})),
              kernels_of(programs.program(0)) * 1e-5, 1e-9);
}

TEST(MeasuredTimesTest, RanksThatComputeAtOnceSlowEachOtherDown) {
  const RankPrograms programs = programs_of("dp=2");
  const double free = step_s(programs, machine({shared(1, 1), shared(2, 1), shared(4, 1)}));
  const double one_core = step_s(programs, machine({shared(1, 1), shared(2, 2), shared(4, 4)}));
  // Both ranks do the same: nearly all of the step is shared.
  EXPECT_GT(one_core, 1.9 * free);
  EXPECT_LT(one_core, 2.3 * free);
}

TEST(MeasuredTimesTest, FourRanksOnTwoCoresTakeExactlyTwice) {
  RankPrograms programs = programs_of("dp=4");
  const double alone = step_s(programs_of("dp=1"), machine({}));
  // Without collectives all four do the same from beginning to end.
  MeasuredMachine two_cores = machine({});
  for (MeasuredCollective& collective : two_cores.collectives) collective.fit.seconds = {};
  const double kernels = kernels_of(programs.program(0)) * 1e-5;
  EXPECT_NEAR(step_s(programs, two_cores), 2 * kernels, 1e-12);
  EXPECT_GT(kernels, 0.9 * alone);
  two_cores.sharing = {shared(1, 1), shared(2, 1), shared(4, 2)};
  EXPECT_NEAR(step_s(programs, two_cores), 2 * kernels, 1e-12);
}

TEST(MeasuredTimesTest, EveryClassSlowsDownByItsOwnFactor) {
  const RankPrograms programs = programs_of("dp=2");
  MeasuredMachine measured = machine({shared(1, 1), shared(2, 1), shared(4, 1)});
  for (MeasuredCollective& collective : measured.collectives) collective.fit.seconds = {};
  const double free = step_s(programs, measured);
  measured.sharing[1].slowdown[static_cast<size_t>(OpClass::kProducts)] = 1.5;
  double products = 0;
  for (const Instruction& instruction : programs.program(0).instructions) {
    if (class_of(instruction.op) == OpClass::kProducts) ++products;
  }
  EXPECT_NEAR(step_s(programs, measured), free + 0.5 * products * 1e-5, 1e-12);
}

TEST(MeasuredTimesTest, ARankThatWaitsTakesNoCore) {
  const RankPrograms programs = programs_of("pp=2");
  const double free = step_s(programs, machine({shared(1, 1), shared(2, 1), shared(4, 1)}));
  const double one_core = step_s(programs, machine({shared(1, 1), shared(2, 2), shared(4, 4)}));
  // With one core for both, a pipeline takes as long as all its kernels in a row: no bubble.
  const double all = (kernels_of(programs.program(0)) + kernels_of(programs.program(1))) * 1e-5;
  EXPECT_GT(one_core, all);
  EXPECT_LT(one_core, 1.25 * all);
  EXPECT_LT(one_core, 2 * free);
}

TEST(MeasuredTimesTest, SharingNeverMakesAStepFaster) {
  for (const char* mesh : {"dp=2", "tp=2", "pp=2", "fsdp=2", "pp=2,schedule=zb-h1"}) {
    const RankPrograms programs = programs_of(mesh);
    double before = 0;
    for (const double factor : {1.0, 1.2, 2.0, 5.0}) {
      const double now =
          step_s(programs, machine({shared(1, 1), shared(2, factor), shared(4, 2 * factor)}));
      EXPECT_GE(now, before * (1 - 1e-9)) << mesh;
      before = now;
    }
  }
}

TEST(MeasuredTimesTest, GivesTheSameTimesAgain) {
  const RankPrograms programs = programs_of("dp=2");
  const MeasuredMachine measured = machine({shared(1, 1), shared(2, 1.3), shared(4, 3.1)});
  EXPECT_EQ(step_s(programs, measured), step_s(programs, measured));
}

}  // namespace
}  // namespace tessera
