#include "compile/lower/fuse_norm_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/cuda_workspace.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

RunSpec layer_norm_spec(const std::string& mesh, TrainDevice device) {
  RunSpec spec = testing::small_spec(mesh);
  spec.model.norm = NormKind::kLayer;
  spec.train.device = device;
  return spec;
}

Program program_of(RunSpec spec, size_t rank = 0) {
  return compile_ranks(build_step(testing::resolved(std::move(spec)), StepKind::kTraining))[rank];
}

std::vector<Instruction> all_of(const Program& program, OpKind op) {
  std::vector<Instruction> found;
  for (const Instruction& i : program.instructions) {
    if (i.op == op) found.push_back(i);
  }
  return found;
}

// Two in each of two blocks, and the last.
constexpr size_t kNorms = 5;

TEST(FuseNormGradients, MakesOneInstructionOfALayerNorm) {
  const Program apart = program_of(layer_norm_spec("dp=1", TrainDevice::kCpu));
  const Program fused = program_of(layer_norm_spec("dp=1", TrainDevice::kCuda));
  const std::vector<Instruction> gradients = all_of(fused, OpKind::kLayerNormGrad);
  const std::vector<Instruction> dx = all_of(apart, OpKind::kLayerNormDx);
  const std::vector<Instruction> dw = all_of(apart, OpKind::kLayerNormDw);
  ASSERT_EQ(gradients.size(), kNorms);
  ASSERT_EQ(dx.size(), kNorms);
  ASSERT_EQ(dw.size(), kNorms);
  const auto name = [](const Program& program, BufferId id) { return program.buffer(id).name; };
  for (size_t i = 0; i < kNorms; ++i) {
    EXPECT_EQ(gradients[i].inputs.size(), dx[i].inputs.size());
    ASSERT_EQ(gradients[i].outputs.size(), 3U);
    EXPECT_EQ(name(fused, gradients[i].outputs[0]), name(apart, dx[i].outputs[0]));
    EXPECT_EQ(name(fused, gradients[i].outputs[1]), name(apart, dw[i].outputs[0]));
    EXPECT_NE(name(fused, gradients[i].outputs[2]).find("bias"), std::string::npos);
    EXPECT_FALSE(gradients[i].accumulate);
  }
  for (const OpKind op : {OpKind::kLayerNormDx, OpKind::kLayerNormDw, OpKind::kLayerNormDwBias}) {
    EXPECT_TRUE(all_of(fused, op).empty());
  }
}

TEST(FuseNormGradients, MakesOneInstructionOfAnRmsNorm) {
  RunSpec spec = testing::small_spec("dp=1");
  spec.train.device = TrainDevice::kCuda;
  const Program program = program_of(spec);
  ASSERT_EQ(all_of(program, OpKind::kRmsNormGrad).size(), kNorms);
  EXPECT_TRUE(all_of(program, OpKind::kRmsNormDx).empty());
  EXPECT_TRUE(all_of(program, OpKind::kRmsNormDw).empty());
}

TEST(FuseNormGradients, LeavesTheProgramsOfTheCpu) {
  const Program program = program_of(layer_norm_spec("dp=1", TrainDevice::kCpu));
  EXPECT_TRUE(all_of(program, OpKind::kLayerNormGrad).empty());
  EXPECT_TRUE(all_of(program, OpKind::kLayerNormDwBias).empty());
}

// Only the gradients of the weights go on from the micro-batch before.
TEST(FuseNormGradients, AddsTheLaterMicroBatches) {
  RunSpec spec = layer_norm_spec("dp=1", TrainDevice::kCuda);
  spec.train.global_batch = 2 * spec.train.micro_batch;
  const std::vector<Instruction> gradients = all_of(program_of(spec), OpKind::kLayerNormGrad);
  ASSERT_EQ(gradients.size(), 2 * kNorms);
  for (const Instruction& gradient : gradients) {
    EXPECT_EQ(gradient.accumulate, gradient.micro_batch > 0);
  }
}

// Where the schedule computes weight gradients later, the input gradient does not wait for them.
TEST(FuseNormGradients, KeepsPartsOfTheScheduleApart) {
  RunSpec spec = layer_norm_spec("pp=2", TrainDevice::kCuda);
  spec.parallel.schedule = PipelineKind::kZbH1;
  spec.train.global_batch = 4 * spec.train.micro_batch;
  const Program program = program_of(spec);
  EXPECT_TRUE(all_of(program, OpKind::kLayerNormGrad).empty());
  EXPECT_TRUE(all_of(program, OpKind::kLayerNormDw).empty());
  EXPECT_FALSE(all_of(program, OpKind::kLayerNormDwBias).empty());
  EXPECT_EQ(all_of(program, OpKind::kLayerNormDx).size(),
            all_of(program, OpKind::kLayerNormDwBias).size());
}

TEST(FuseNormGradients, ReservesScratchForTheSums) {
  const Program program = program_of(layer_norm_spec("dp=1", TrainDevice::kCuda));
  const Instruction gradient = all_of(program, OpKind::kLayerNormGrad).at(0);
  const Buffer& dy = program.buffer(gradient.inputs[0]);
  EXPECT_GE(program.buffer(program.scratch).bytes(),
            workspace::cuda::norm_grad(dy.dtype, dy.shape[0], dy.shape[1], 2));
}

}  // namespace
}  // namespace tessera
