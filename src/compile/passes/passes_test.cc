// What the rewrites are for, seen in the programs: what overlaps, what is alive, what is released.
#include "compile/passes/passes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rounding.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

using testing::resolved;
using testing::small_spec;

Program program_of(const RunSpec& spec) { return lower(build_step(spec, StepKind::kTraining), 0); }

int64_t arena(const Program& program, ArenaKind kind) {
  return program.arena_bytes[static_cast<size_t>(kind)];
}

// The first kernel after `index` that waits for it or for a later collective.
size_t first_waiter(const Program& program, size_t index) {
  std::vector<size_t> signaller(static_cast<size_t>(program.num_events), 0);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.signal >= 0) signaller[static_cast<size_t>(instruction.signal)] = i;
    if (i <= index || has_collectives(instruction.stream)) continue;
    for (const int event : instruction.waits) {
      if (signaller[static_cast<size_t>(event)] >= index) return i;
    }
  }
  return program.instructions.size();
}

// ---- chunks of the loss ----

// Two micro-batches: gradients lie elsewhere than activations.
RunSpec chunked(int64_t loss_chunk) {
  RunSpec spec = small_spec("dp=1");
  spec.train.global_batch = 2;
  spec.model.vocab = 4096;
  spec.train.seq_len = 32;
  spec.train.loss_chunk = loss_chunk;
  return resolved(spec);
}

TEST(LossChunks, EachChunkIsDoneBeforeTheNextBegins) {
  const Program program = program_of(chunked(8));
  int chunk = -1;
  int switches = 0;
  for (const Instruction& i : program.instructions) {
    if (i.tag.chunk < 0 || i.micro_batch > 0) continue;
    if (i.tag.chunk != chunk) ++switches;
    EXPECT_GE(i.tag.chunk, chunk) << i.name;
    chunk = i.tag.chunk;
  }
  EXPECT_EQ(switches, 4);
}

TEST(LossChunks, OnlyOneChunkOfLogitsIsInMemory) {
  const int64_t whole = arena(program_of(chunked(32)), ArenaKind::kActivations);
  const int64_t quarter = arena(program_of(chunked(8)), ArenaKind::kActivations);
  const int64_t logits = 32 * 4096 * 4;
  EXPECT_GE(whole, logits);
  EXPECT_LT(quarter, logits / 4 + logits / 8);  // one chunk and small things
}

// ---- overlap ----

TEST(DelayedWeightGradients, EveryInputGradientSumOfABlockHidesBehindAProduct) {
  for (const char* mesh : {"tp=2,sequence_parallel=true", "dp=2,tp=2"}) {
    const Program program = program_of(resolved(small_spec(mesh)));
    int sums = 0;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& sum = program.instructions[i];
      const bool sums_inputs =
          sum.collective == CastKind::kAllReduce || sum.collective == CastKind::kReduceScatter;
      const bool of_a_block = sum.tag.unit > 0 && sum.tag.unit < 3;
      if (sum.op != OpKind::kCast || !sums_inputs || sum.tag.pass != Pass::kInputGrad) continue;
      if (!of_a_block) continue;
      ++sums;
      int hidden_behind = 0;
      for (size_t k = i + 1; k < first_waiter(program, i); ++k) {
        hidden_behind += program.instructions[k].op == OpKind::kLinearDw ? 1 : 0;
      }
      EXPECT_GE(hidden_behind, 1) << mesh << ": " << sum.name;
    }
    EXPECT_EQ(sums, 4) << mesh;
  }
}

TEST(Regather, SequenceParallelInputsAreGatheredAgainAndNotKept) {
  const Program program = program_of(resolved(small_spec("tp=2,sequence_parallel=true")));
  std::map<std::string, int> gathers;
  for (const Instruction& i : program.instructions) {
    if (i.collective == CastKind::kAllGather) ++gathers[i.name];
  }
  for (const char* name : {"layers.0.attn_norm.full", "layers.0.mlp_norm.full",
                           "layers.1.attn_norm.full", "layers.1.mlp_norm.full"}) {
    EXPECT_EQ(gathers[name], 2) << name;
  }
  EXPECT_EQ(gathers["final_norm.full"], 1) << "the head's backward follows its forward at once";
}

// ---- ZeRO-3 ----

RunSpec sharded(int64_t layers, int64_t prefetch) {
  RunSpec spec = small_spec("fsdp=2");
  spec.model.layers = layers;
  spec.parallel.prefetch = prefetch;
  return resolved(spec);
}

TEST(Prefetch, WeightsAreGatheredThatManyUnitsAhead) {
  for (const int64_t depth : {0, 1, 2}) {
    SCOPED_TRACE(depth);
    const Program program = program_of(sharded(4, depth));
    // Stretches: units 0..4 forward, the head, units 4..0 backward.
    const auto stretch_of = [](const Instruction& i) {
      const bool backward = i.tag.pass != Pass::kForward;
      return i.tag.unit == 5 ? 5 : backward ? 10 - i.tag.unit : i.tag.unit;
    };
    int64_t running = -1;  // stretch of the newest kernel
    int gathers = 0;
    for (const Instruction& i : program.instructions) {
      if (i.tag.pass == Pass::kUpdate) break;
      if (i.tag.pass == Pass::kReduce) continue;
      if (i.stream == StreamKind::kCompute) {
        running = stretch_of(i);
        continue;
      }
      ASSERT_EQ(i.collective, CastKind::kAllGather);
      ++gathers;
      // Issued at the boundary before the stretch `depth` ahead of its own.
      EXPECT_EQ(std::max<int64_t>(stretch_of(i) - depth, 0), running + 1) << i.name;
    }
    // Two buckets a block, forward and backward; the head's two and the embedding once.
    EXPECT_EQ(gathers, 4 * 2 * 2 + 2 + 1);
  }
}

TEST(Prefetch, BlocksOfAUnitAreGatheredTogether) {
  RunSpec spec = sharded(5, 1);
  const int64_t alone = arena(program_of(spec), ArenaKind::kCommunication);
  spec.parallel.unit_blocks = 2;
  const Program program = program_of(spec);
  // The embedding, blocks 1 and 2, 3 and 4, block 5, the head, and back.
  const auto stretch_of = [](const Instruction& i) {
    const int64_t unit = i.tag.unit == 6 ? 4 : (i.tag.unit + 1) / 2;
    return i.tag.pass == Pass::kForward || unit == 4 ? unit : 8 - unit;
  };
  int64_t running = -1;  // stretch of the newest kernel
  int gathers = 0;
  for (const Instruction& i : program.instructions) {
    if (i.tag.pass == Pass::kUpdate) break;
    if (i.tag.pass == Pass::kReduce) continue;
    if (i.stream == StreamKind::kCompute) {
      running = stretch_of(i);
      continue;
    }
    ++gathers;
    EXPECT_EQ(std::max<int64_t>(stretch_of(i) - 1, 0), running + 1) << i.name;
  }
  EXPECT_EQ(gathers, 5 * 2 * 2 + 2 + 1) << "as many as with units of one block";
  EXPECT_GT(arena(program, ArenaKind::kCommunication), alone);
}

TEST(Prefetch, GatheredWeightsAreReleased) {
  const int64_t four = arena(program_of(sharded(4, 1)), ArenaKind::kCommunication);
  const int64_t twelve = arena(program_of(sharded(12, 1)), ArenaKind::kCommunication);
  EXPECT_EQ(four, twelve) << "more blocks must not need more gathered weights";

  const StepGraph step = build_step(sharded(12, 1), StepKind::kTraining);
  int64_t all_units = 0;
  for (const Bucket& bucket : step.layout.buckets) all_units += bucket.numel * 4;
  EXPECT_LT(twelve, all_units / 2);
  EXPECT_LT(arena(program_of(sharded(12, 0)), ArenaKind::kCommunication),
            arena(program_of(sharded(12, 3)), ArenaKind::kCommunication));
}

// ---- what each ZeRO stage keeps ----

struct Expected {
  int64_t parameters = 0, gradients = 0, optimizer = 0;
};

Expected expected_bytes(const ParameterLayout& layout, int64_t zero, DType dtype, bool full_grads) {
  Expected bytes;
  for (const Bucket& bucket : layout.buckets) {
    const int64_t shard = bucket.numel / layout.shards;
    const int64_t weights = zero == 3 ? shard : bucket.numel;
    const int64_t gradient = zero >= 2 && !full_grads ? shard : bucket.numel;
    const int64_t state = zero >= 1 ? shard : bucket.numel;
    const int64_t wide = size_bytes(accumulate_type(dtype));
    bytes.parameters += round_up(weights * size_bytes(dtype), 64);
    bytes.gradients += round_up(gradient * wide, 64);
    bytes.optimizer += 2 * round_up(state * wide, 64);                      // m and v
    if (dtype == DType::kBF16) bytes.optimizer += round_up(state * 2, 64);  // of the master weights
  }
  return bytes;
}

TEST(ZeroStages, KeepExactlyTheirShare) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    for (const std::string mesh : {"dp=4", "fsdp=4", "dp=2,fsdp=2,tp=2"}) {
      for (int64_t zero = 0; zero <= 3; ++zero) {
        SCOPED_TRACE(fmt::format("{} {} zero={}", name_of(dtype), mesh, zero));
        RunSpec spec = small_spec(fmt::format("{},zero={}", mesh, zero));
        spec.train.dtype = dtype;
        spec.train.global_batch = 2 * spec.parallel.replicas();
        spec = resolved(spec);
        const StepGraph step = build_step(spec, StepKind::kTraining);
        const Expected want = expected_bytes(step.layout, zero, dtype, false);
        const Program program = lower(step, 0);
        EXPECT_EQ(arena(program, ArenaKind::kParameters), want.parameters);
        EXPECT_EQ(arena(program, ArenaKind::kGradients), want.gradients);
        EXPECT_EQ(arena(program, ArenaKind::kOptimizer), want.optimizer);
      }
    }
  }
}

TEST(ZeroStages, GradientsStayWholeOnlyWhenTheyAreSummedOncePerStep) {
  for (const GradReduce policy : {GradReduce::kStep, GradReduce::kMicroBatch, GradReduce::kAuto}) {
    RunSpec spec = small_spec("dp=4,zero=2");
    spec.train.global_batch = 12;
    spec.parallel.grad_reduce = policy;
    spec = resolved(spec);
    const StepGraph step = build_step(spec, StepKind::kTraining);
    EXPECT_EQ(arena(lower(step, 0), ArenaKind::kGradients),
              expected_bytes(step.layout, 2, DType::kF32, policy == GradReduce::kStep).gradients)
        << name_of(policy);
  }
}

// ---- gradients of a single micro-batch ----

int64_t gradient_bytes(const StepGraph& step) {
  return expected_bytes(step.layout, step.spec.parallel.zero, step.spec.train.dtype, false)
      .gradients;
}

RunSpec deep(const std::string& mesh, int64_t micro_batches) {
  RunSpec spec = small_spec(mesh);
  spec.model.layers = 12;
  spec.train.seq_len = 64;
  spec.train.global_batch = micro_batches * spec.parallel.replicas();
  return resolved(spec);
}

TEST(GradientMemory, OneMicroBatchNeedsLittleMoreThanItsActivations) {
  for (const std::string mesh : {"dp=1", "dp=2", "dp=2,zero=1", "fsdp=2", "tp=2", "pp=2"}) {
    SCOPED_TRACE(mesh);
    const StepGraph one = build_step(deep(mesh, 1), StepKind::kTraining);
    const StepGraph two = build_step(deep(mesh, 2), StepKind::kTraining);
    const Program shared = lower(one, 0);
    const Program apart = lower(two, 0);
    EXPECT_EQ(arena(shared, ArenaKind::kGradients), 0);
    EXPECT_GT(arena(apart, ArenaKind::kGradients), 0);
    EXPECT_LT(arena(shared, ArenaKind::kActivations),
              arena(apart, ArenaKind::kActivations) + gradient_bytes(one) / 4);
  }
}

TEST(GradientMemory, StagesThatRunByTurnsKeepTheirGradients) {
  const StepGraph step = build_step(resolved(small_spec("pp=2,schedule=zb-v,stage_layers=0+1+1+0")),
                                    StepKind::kTraining);
  EXPECT_GT(arena(lower(step, 0), ArenaKind::kGradients), 0);
}

}  // namespace
}  // namespace tessera
