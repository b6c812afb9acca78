#include "compile/program/memory_parts.h"

#include <gtest/gtest.h>

#include <numeric>

#include "compile/lower/arena_layout.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

int64_t sum(const std::array<int64_t, kNumArenas>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

int64_t part(const Program& program, ArenaKind kind) {
  return memory_parts(program)[static_cast<size_t>(kind)];
}

// All gradients of a rank, from the layout of the weights.
int64_t laid_out_gradients(const StepGraph& step, int rank) {
  int64_t bytes = 0;
  for (const Bucket& bucket : step.layout.buckets) {
    if (!step.holds(rank, bucket.unit)) continue;
    const bool whole = step.keeps_full_gradients() || step.spec.parallel.zero == 0;
    const int64_t numel = whole ? bucket.numel : step.layout.shard_numel(bucket);
    bytes += arena_aligned(numel * size_bytes(step.spec.train.gradient_type()));
  }
  return bytes;
}

TEST(MemoryParts, TellGradientsFromTheActivationsAmongWhichTheyLie) {
  for (const char* mesh :
       {"dp=1", "dp=4", "dp=4,zero=1", "dp=4,zero=2", "dp=4,zero=3", "fsdp=4,zero=3",
        "dp=2,fsdp=2,zero=3", "tp=2,sequence_parallel=true", "pp=2,dp=2", "cp=2,dp=2,zero=1",
        "dp=2,tp=2,zero=1", "dp=2,zero=1,recompute=full"}) {
    SCOPED_TRACE(mesh);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      RunSpec spec = testing::small_spec(mesh);
      spec.train.dtype = dtype;
      const StepGraph step = build_step(testing::resolved(std::move(spec)), StepKind::kTraining);
      for (const Program& program : compile_ranks(step)) {
        EXPECT_EQ(part(program, ArenaKind::kGradients), laid_out_gradients(step, program.rank));
        EXPECT_GE(part(program, ArenaKind::kActivations), 0);
        EXPECT_EQ(sum(memory_parts(program)), program.total_bytes());
      }
    }
  }
}

TEST(MemoryParts, AreTheArenasWhereGradientsHaveOneOfTheirOwn) {
  RunSpec spec = testing::small_spec("dp=2,zero=1");
  spec.train.global_batch = 2 * 3 * spec.train.micro_batch;
  const StepGraph step = build_step(testing::resolved(std::move(spec)), StepKind::kTraining);
  for (const Program& program : compile_ranks(step)) {
    EXPECT_EQ(gradients_among_activations(program), 0);
    EXPECT_EQ(memory_parts(program), program.arena_bytes);
    EXPECT_GT(part(program, ArenaKind::kGradients), 0);
  }
}

}  // namespace
}  // namespace tessera
