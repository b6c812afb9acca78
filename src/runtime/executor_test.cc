// A step runs what was planned, and every failure ends all ranks soon, with a message that says
// where it began.
#include "runtime/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "compile/testing/test_spec.h"
#include "runtime/world.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

RunSpec spec_of(const std::string& mesh) {
  RunSpec spec = testing::small_spec(mesh);
  spec.train.global_batch = 4;
  return testing::resolved(spec);
}

StepGraph step_of(const std::string& mesh) {
  return build_step(spec_of(mesh), StepKind::kTraining);
}

// Other tokens for every replica, the same for its tp ranks.
void fill_inputs(Executor& executor) {
  const Program& program = executor.program();
  const Tensor tokens = executor.view(program.tokens).tensor;
  const Tensor labels = executor.view(program.labels).tensor;
  const int64_t replica = program.mesh.coord(program.rank, Axis::kDp) * 100 +
                          program.mesh.coord(program.rank, Axis::kFsdp);
  for (int64_t i = 0; i < tokens.numel(); ++i) {
    tokens.as<int32_t>()[i] = static_cast<int32_t>((replica + 7 * i) % 40);
    labels.as<int32_t>()[i] = static_cast<int32_t>((replica + 3 * i + 1) % 40);
  }
}

void run_steps(World& world, int steps = 1) {
  world.run([&](int, Executor& executor) {
    fill_inputs(executor);
    for (int s = 1; s <= steps; ++s) executor.run({.lr = 1e-3, .step = s});
  });
}

const char* const kMeshes[] = {"dp=1", "dp=2,tp=2,zero=1,sequence_parallel=true", "fsdp=2,tp=2",
                               "dp=2,zero=2"};

class ExecutorOnMesh : public ::testing::TestWithParam<const char*> {};

// All weights are zero, so every token is equally likely.
TEST_P(ExecutorOnMesh, AModelOfZerosKnowsNothing) {
  World world(step_of(GetParam()));
  world.run([&](int, Executor& executor) {
    fill_inputs(executor);
    const StepOutcome outcome = executor.run({.lr = 0, .step = 1});
    EXPECT_NEAR(outcome.loss, std::log(40.0), 1e-6);
    EXPECT_EQ(outcome.tokens, 4 * 8);
    EXPECT_TRUE(outcome.finite());
  });
}

TEST_P(ExecutorOnMesh, TimesInstructionsWhenAsked) {
  World world(step_of(GetParam()));
  run_steps(world);
  EXPECT_FALSE(world.executor(0).instruction_times().has_value());
  world.executor(0).time_instructions(true);
  run_steps(world, 2);
  const std::optional<InstructionTimes>& times = world.executor(0).instruction_times();
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->steps(), 2);
  double sum = 0;
  for (size_t i = 0; i < world.program(0).instructions.size(); ++i) sum += times->seconds(i);
  EXPECT_GT(sum, 0);
  world.executor(0).time_instructions(false);
  EXPECT_FALSE(world.executor(0).instruction_times().has_value());
}

TEST_P(ExecutorOnMesh, RunsWhatWasPlanned) {
  World world(step_of(GetParam()));
  run_steps(world, 3);
  for (int rank = 0; rank < world.size(); ++rank) {
    const Program& plan = world.program(rank);
    const Executor& executor = world.executor(rank);
    EXPECT_EQ(executor.executed_digest(), digest_of(plan));
    EXPECT_EQ(executor.executed_instructions(), static_cast<int64_t>(plan.instructions.size()));
    for (const ArenaKind arena : kAllArenas) {
      EXPECT_EQ(executor.arena_bytes(arena), plan.arena_bytes[static_cast<size_t>(arena)]);
    }
    std::vector<Traffic> planned = traffic_of(plan);
    for (Traffic& traffic : planned) {
      traffic.calls *= 3;
      traffic.bytes_sent *= 3;
    }
    EXPECT_EQ(executor.traffic(), planned);
    EXPECT_EQ(planned.empty(), world.size() == 1);
  }
}

// Negative control: a rank that skips or changes one instruction has another digest.
TEST_P(ExecutorOnMesh, DigestShowsASkippedAndAChangedInstruction) {
  const StepGraph step = step_of(GetParam());
  const std::vector<Program> plan = compile_ranks(step);
  const auto find = [](std::vector<Instruction>& list, OpKind op) {
    return std::find_if(list.begin(), list.end(), [&](const Instruction& i) {
      return i.op == op && i.signal < 0 && i.waits.empty();
    });
  };
  std::vector<Program> skipping = plan;
  std::vector<Instruction>& list = skipping[0].instructions;
  const auto rope = find(list, OpKind::kRope);
  ASSERT_NE(rope, list.end());
  list.erase(rope);
  World skips(step, skipping);
  run_steps(skips);
  EXPECT_NE(skips.executor(0).executed_digest(), digest_of(plan[0]));
  EXPECT_EQ(skips.executor(0).executed_instructions() + 1,
            static_cast<int64_t>(plan[0].instructions.size()));

  std::vector<Program> changing = plan;
  const auto changed = find(changing[0].instructions, OpKind::kRope);
  ASSERT_NE(changed, changing[0].instructions.end());
  changed->args.inverse = !changed->args.inverse;
  World changes(step, changing);
  run_steps(changes);
  EXPECT_NE(changes.executor(0).executed_digest(), digest_of(plan[0]));
  if (changes.size() > 1) {
    EXPECT_EQ(changes.executor(1).executed_digest(), digest_of(plan[1]));
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, ExecutorOnMesh, ::testing::ValuesIn(kMeshes));

// ---- failures ----

// Runs one step with `probe` on `rank`; gives the error that World::run threw and the ones that the
// ranks saw, and fails when they take long.
struct Failure {
  std::string thrown;
  std::vector<std::string> seen;
};

Failure run_failing(World& world, int rank, const Executor::Probe& probe) {
  Failure failure;
  failure.seen.resize(static_cast<size_t>(world.size()));
  const auto start = Clock::now();
  try {
    world.run([&](int self, Executor& executor) {
      fill_inputs(executor);
      if (self == rank) executor.set_probe(probe);
      try {
        executor.run({.lr = 1e-3, .step = 1});
      } catch (const std::exception& e) {
        failure.seen[static_cast<size_t>(self)] = e.what();
        throw;
      }
    });
  } catch (const std::exception& e) {
    failure.thrown = e.what();
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10)) << "ranks hung";
  return failure;
}

void expect_in(const std::string& part, const std::string& message) {
  EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
}

Executor::Probe failing_at(StreamKind stream, const std::string& name) {
  return [=](size_t, const Instruction& instruction) {
    require(instruction.stream != stream || instruction.name != name, "the device caught fire");
  };
}

TEST(Failure, OfAKernelEndsEveryRankAndNamesRankAndInstruction) {
  World world(step_of("dp=2,tp=2"));
  const Failure failure = run_failing(world, 2, failing_at(StreamKind::kCompute, "layers.1.down"));
  expect_in("rank 2: step 1: instruction ", failure.thrown);
  expect_in("(linear 'layers.1.down'): the device caught fire", failure.thrown);
  for (const std::string& seen : failure.seen) expect_in("rank 2", seen);
}

TEST(Failure, OfACollectiveEndsEveryRankAndNamesRankAndInstruction) {
  World world(step_of("dp=2,tp=2"));
  const Failure failure = run_failing(world, 1, failing_at(StreamKind::kComm, "layers.0.o.sum"));
  expect_in("(cast 'layers.0.o.sum'): the device caught fire", failure.thrown);
  for (const std::string& seen : failure.seen) expect_in("rank 1", seen);
}

TEST(Failure, ADeadWorldStaysDead) {
  World world(step_of("dp=2"));
  run_failing(world, 0, failing_at(StreamKind::kCompute, "layers.0.q"));
  const auto start = Clock::now();
  EXPECT_THROW(run_steps(world), std::exception);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
}

// Holds an instruction back until some rank has given up: no sleep is long enough on a busy
// machine.
class UntilFailure {
 public:
  void wait() const {
    const auto end = Clock::now() + std::chrono::seconds(8);
    while (!failed_.load() && Clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
  }
  std::string run(Executor& executor) {
    try {
      executor.run({.lr = 1e-3, .step = 1});
    } catch (const std::exception& e) {
      failed_.store(true);
      return e.what();
    }
    return "";
  }

 private:
  std::atomic<bool> failed_{false};
};

// The comm thread of rank 0 stands still in front of its first signal.
TEST(Failure, WaitForTheOtherStreamIsBounded) {
  ExecutorOptions options;
  options.timeout = milliseconds(60);
  LocalWorld local({1, WorldOptions().comm_timeout});
  const StepGraph step = step_of("dp=1");
  Program program = lower(step, 0);
  // On one rank nothing communicates: a sum over itself stands in for a collective.
  Instruction sum;
  sum.op = OpKind::kCast;
  sum.collective = CastKind::kAllReduce;
  sum.group = Axis::kTp;
  sum.stream = StreamKind::kComm;
  sum.inputs = sum.outputs = {program.metrics};
  sum.name = "stuck";
  sum.signal = program.num_events++;
  program.instructions.front().waits = {sum.signal};
  const std::string first = program.instructions.front().name;
  program.instructions.insert(program.instructions.begin(), sum);
  Rank self(local.endpoint(0), {.threads = program.threads});
  Executor executor(self, step, program, options);
  fill_inputs(executor);
  executor.set_probe([&](size_t, const Instruction& instruction) {
    const auto end = Clock::now() + std::chrono::seconds(8);
    while (instruction.name == "stuck" && !local.aborted() && Clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  const std::string message = UntilFailure().run(executor);
  expect_in("rank 0: instruction 1", message);
  expect_in("'" + first + "') waited 60 ms for cast 'stuck' of the same rank", message);
}

// Rank 1 does not come to the first collective before rank 0 has given it up.
TEST(Failure, WaitForAPeerIsBoundedAndNamesIt) {
  WorldOptions options;
  options.comm_timeout = milliseconds(150);
  World world(step_of("tp=2"), options);
  UntilFailure until;
  std::string message;
  world.run([&](int rank, Executor& executor) {
    fill_inputs(executor);
    if (rank == 1) {
      executor.set_probe([&](size_t, const Instruction& instruction) {
        if (instruction.op == OpKind::kEmbedding) until.wait();
      });
    }
    const std::string mine = until.run(executor);
    if (rank == 0) message = mine;
  });
  expect_in("rank 1", message);
}

TEST(Failure, SwappedCollectivesAreRefusedNotMixed) {
  const StepGraph step = step_of("tp=2");
  std::vector<Program> programs = compile_ranks(step);
  std::vector<Instruction>& list = programs[1].instructions;
  const auto named = [&](const std::string& name) {
    return std::find_if(list.begin(), list.end(), [&](const Instruction& i) {
      return i.op == OpKind::kCast && i.name == name;
    });
  };
  const auto o = named("layers.0.o.sum");
  const auto down = named("layers.0.down.sum");
  ASSERT_NE(o, list.end());
  ASSERT_NE(down, list.end());
  std::swap(o->name, down->name);
  World world(step, programs);
  const Failure failure = run_failing(world, 0, {});
  expect_in("group tp", failure.thrown);
  expect_in("rank 1", failure.thrown);
}

}  // namespace
}  // namespace tessera
