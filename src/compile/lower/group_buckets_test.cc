#include "compile/lower/group_buckets.h"

#include <gtest/gtest.h>

#include "base/step_params.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

Program program_of(RunSpec spec) {
  return compile_ranks(build_step(testing::resolved(std::move(spec)), StepKind::kTraining))[0];
}

std::vector<Instruction> all_of(const Program& program, OpKind op) {
  std::vector<Instruction> found;
  for (const Instruction& i : program.instructions) {
    if (i.op == op) found.push_back(i);
  }
  return found;
}

TEST(GroupBuckets, MakesOneSumAndOneUpdateOfAllBuckets) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    RunSpec spec = testing::small_spec("dp=1");
    spec.train.dtype = dtype;
    const Program program = program_of(spec);
    const std::vector<Instruction> sums = all_of(program, OpKind::kSumSquares);
    const std::vector<Instruction> updates = all_of(program, OpKind::kAdamW);
    ASSERT_EQ(sums.size(), 1U);
    ASSERT_EQ(updates.size(), 1U);
    std::vector<BufferId> gradients, states;
    for (size_t b = 0; b < program.buckets.size(); ++b) {
      const BucketBuffers& bucket = program.buckets[b];
      gradients.push_back(bucket.gradient);
      for (const BufferId id : {bucket.weights, bucket.m, bucket.v}) states.push_back(id);
      if (dtype == DType::kBF16) states.push_back(bucket.master);
      EXPECT_EQ(sums[0].args.buckets.at(b).index, static_cast<int64_t>(b));
      EXPECT_EQ(updates[0].args.buckets.at(b).index, static_cast<int64_t>(b));
    }
    EXPECT_EQ(sums[0].inputs, gradients);
    EXPECT_EQ(sums[0].outputs, std::vector<BufferId>{program.metrics});
    gradients.push_back(program.metrics);
    EXPECT_EQ(updates[0].inputs, gradients);
    EXPECT_EQ(updates[0].outputs, states);
    EXPECT_EQ(has_master(updates[0]), dtype == DType::kBF16);
  }
}

// Matrices decay, norms do not.
TEST(GroupBuckets, KeepsTheDecayOfEveryBucket) {
  const StepGraph step =
      build_step(testing::resolved(testing::small_spec("dp=1")), StepKind::kTraining);
  const Instruction update = all_of(compile_ranks(step)[0], OpKind::kAdamW).at(0);
  ASSERT_EQ(update.args.buckets.size(), step.layout.buckets.size());
  int decaying = 0;
  for (size_t b = 0; b < step.layout.buckets.size(); ++b) {
    EXPECT_EQ(update.args.buckets[b].decay, step.layout.buckets[b].decay);
    decaying += update.args.buckets[b].decay ? 1 : 0;
  }
  EXPECT_GT(decaying, 0);
  EXPECT_LT(decaying, static_cast<int>(step.layout.buckets.size()));
}

TEST(GroupBuckets, StopsAtWhatOneKernelTakes) {
  RunSpec spec = testing::small_spec("dp=1");
  spec.model.layers = 40;
  const Program program = program_of(spec);
  ASSERT_GT(program.buckets.size(), kMostGroupedBuckets);
  for (const OpKind op : {OpKind::kSumSquares, OpKind::kAdamW}) {
    const std::vector<Instruction> groups = all_of(program, op);
    ASSERT_EQ(groups.size(), 2U);
    EXPECT_EQ(groups[0].args.buckets.size(), kMostGroupedBuckets);
    EXPECT_EQ(groups[1].args.buckets.size(), program.buckets.size() - kMostGroupedBuckets);
  }
}

// A shard is gathered while the next bucket is updated.
TEST(GroupBuckets, LeavesUpdatesWithGathersBetween) {
  const Program program = program_of(testing::small_spec("dp=2,zero=1"));
  const std::vector<Instruction> updates = all_of(program, OpKind::kAdamW);
  EXPECT_EQ(updates.size(), program.buckets.size());
  for (const Instruction& update : updates) EXPECT_EQ(update.args.buckets.size(), 1U);
  EXPECT_EQ(all_of(program, OpKind::kSumSquares).size(), 1U);
}

TEST(GroupBuckets, BucketsArePartOfAnInstructionsIdentity) {
  const Program program = program_of(testing::small_spec("dp=1"));
  const Instruction update = all_of(program, OpKind::kAdamW).at(0);
  Instruction other = update;
  other.args.buckets[1].decay = !other.args.buckets[1].decay;
  EXPECT_NE(hash_of(program, other), hash_of(program, update));
  other = update;
  other.args.buckets[1].index = 7;
  EXPECT_NE(hash_of(program, other), hash_of(program, update));
}

}  // namespace
}  // namespace tessera
