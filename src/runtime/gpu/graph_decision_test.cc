#include "runtime/gpu/graph_decision.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

Program kernels_alone() {
  Program program;
  program.instructions.resize(3);
  return program;
}

Program with_a_collective() {
  Program program = kernels_alone();
  program.instructions[1].stream = StreamKind::kComm;
  return program;
}

TEST(GraphDecisionTest, CapturesTheThirdStepWhereLaunchingTakesMostOfIt) {
  GraphDecision decision(CudaGraph::kAuto, true, kernels_alone());
  decision.saw_step(5.0, 5.0);
  EXPECT_FALSE(decision.captures());
  EXPECT_EQ(decision.text(), "none: too few steps");
  decision.saw_step(0.8, 1.0);
  EXPECT_TRUE(decision.captures());
  EXPECT_FALSE(decision.replays());
  decision.captured(312);
  EXPECT_FALSE(decision.captures());
  EXPECT_TRUE(decision.replays());
  EXPECT_EQ(decision.text(), "312 nodes");
}

TEST(GraphDecisionTest, LeavesLargeStepsAlone) {
  GraphDecision decision(CudaGraph::kAuto, true, kernels_alone());
  decision.saw_step(5.0, 5.0);
  decision.saw_step(0.1, 1.0);
  EXPECT_FALSE(decision.captures());
  EXPECT_EQ(decision.text(), "none: launching takes 10 % of a step, so there is little to gain");
  decision.saw_step(1.0, 1.0);
  EXPECT_FALSE(decision.captures()) << "once decided, decided";
}

TEST(GraphDecisionTest, OnCapturesWhateverItTakes) {
  GraphDecision decision(CudaGraph::kOn, true, kernels_alone());
  decision.saw_step(0.1, 1.0);
  decision.saw_step(0.1, 1.0);
  EXPECT_TRUE(decision.captures());
}

TEST(GraphDecisionTest, SaysWhyNot) {
  EXPECT_EQ(GraphDecision(CudaGraph::kOff, true, kernels_alone()).text(),
            "none: train.cuda_graph is \"off\"");
  EXPECT_EQ(GraphDecision(CudaGraph::kAuto, false, kernels_alone()).text(),
            "none: the run is not on a GPU");
  GraphDecision decision(CudaGraph::kAuto, true, with_a_collective());
  EXPECT_EQ(decision.text(), "none: its collectives meet on the host");
  decision.saw_step(1.0, 1.0);
  decision.saw_step(1.0, 1.0);
  EXPECT_FALSE(decision.captures());
}

TEST(GraphDecisionTest, OnIsRefusedWhereItCannotBe) {
  try {
    const GraphDecision decision(CudaGraph::kOn, true, with_a_collective());
    FAIL() << decision.text();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "train.cuda_graph = \"on\", but a step cannot be a graph: its collectives meet on "
                 "the host; use \"auto\" or \"off\"");
  }
}

TEST(GraphDecisionTest, AFailedCaptureIsAReasonOrAnError) {
  GraphDecision tries(CudaGraph::kAuto, true, kernels_alone());
  tries.not_captured("no");
  EXPECT_EQ(tries.text(), "none: capturing a step failed: no");
  GraphDecision insists(CudaGraph::kOn, true, kernels_alone());
  EXPECT_THROW(insists.not_captured("no"), Error);
}

}  // namespace
}  // namespace tessera
