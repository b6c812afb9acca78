#include "compile/passes/ring_attention.h"

#include <gtest/gtest.h>

#include <map>

#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

using testing::resolved;
using testing::small_spec;

RunSpec ring_spec(const std::string& mesh, int64_t seq_len) {
  RunSpec spec = small_spec(mesh);
  spec.train.seq_len = seq_len;
  spec.model.layers = 1;
  return resolved(spec);
}

std::vector<std::string> names_of(const Graph& graph, OpKind op) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (node.op == op) names.push_back(node.name);
  }
  return names;
}

TEST(RingAttention, KeysGoRoundTwiceAndTheirGradientsComeHome) {
  const StepGraph step = build_step(ring_spec("cp=3", 12), StepKind::kTraining);
  EXPECT_EQ(names_of(step.graph(), OpKind::kShift),
            (std::vector<std::string>{"layers.0.kv.rope.hop1", "layers.0.kv.rope.hop2",
                                      "layers.0.kv.rope.hop1.again", "layers.0.kv.rope.hop2.again",
                                      "d(layers.0.kv.rope).hop1", "d(layers.0.kv.rope).hop2",
                                      "d(layers.0.kv.rope).home"}));
  EXPECT_EQ(names_of(step.graph(), OpKind::kAttentionPart).size(), 3U);
  EXPECT_EQ(names_of(step.graph(), OpKind::kAttentionGradPart).size(), 3U);
  EXPECT_TRUE(names_of(step.graph(), OpKind::kAttention).empty());
  EXPECT_TRUE(names_of(step.graph(), OpKind::kAttentionGrad).empty());
  EXPECT_TRUE(names_of(step.graph(), OpKind::kConvert).empty()) << "f32 is its accumulate type";
}

TEST(RingAttention, LowPrecisionIsSummedInTheAccumulateType) {
  RunSpec spec = ring_spec("cp=2", 8);
  spec.train.dtype = DType::kBF16;
  const StepGraph step = build_step(spec, StepKind::kTraining);
  for (const Node& node : step.graph().nodes()) {
    if (node.name.find("d(layers.0.kv.rope).h") == 0) {
      EXPECT_EQ(step.graph().type(node.outputs[0]).dtype, DType::kF32) << node.name;
    }
    if (node.op == OpKind::kShift && node.tag.pass == Pass::kForward) {
      EXPECT_EQ(step.graph().type(node.outputs[0]).dtype, DType::kBF16) << node.name;
    }
  }
  EXPECT_EQ(
      names_of(step.graph(), OpKind::kConvert),
      (std::vector<std::string>{"layers.0.attn", "d(layers.0.q.rope)", "d(layers.0.kv.rope)"}));
}

TEST(RingAttention, WholeSequencesStayAsTheyAre) {
  for (const char* mesh : {"dp=2", "cp=2,cp_kind=allgather", "cp=2,cp_kind=ulysses"}) {
    const StepGraph step = build_step(ring_spec(mesh, 8), StepKind::kTraining);
    EXPECT_EQ(names_of(step.graph(), OpKind::kAttention).size(), 1U) << mesh;
    EXPECT_TRUE(names_of(step.graph(), OpKind::kShift).empty()) << mesh;
  }
}

// The keys of the next hop are under way while those of this one are used.
TEST(RingAttention, EveryShiftIsIssuedBeforeTheHopItHidesBehind) {
  const Program program = lower(build_step(ring_spec("cp=4", 8), StepKind::kTraining), 1);
  std::map<std::string, size_t> at;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].micro_batch <= 0) at[program.instructions[i].name] = i;
  }
  for (int hop = 0; hop < 3; ++hop) {
    const size_t shift = at.at(fmt::format("layers.0.kv.rope.hop{}", hop + 1));
    EXPECT_LT(shift, at.at(fmt::format("layers.0.attn.hop{}", hop)));
    EXPECT_EQ(program.instructions[shift].stream, StreamKind::kComm);
  }
}

// Rank r meets its own keys first, then those of r - 1, r - 2, …
TEST(RingAttention, EveryRankMeetsTheKeysOfEveryRankOnce) {
  const std::vector<Program> programs =
      compile_ranks(build_step(ring_spec("cp=3", 12), StepKind::kTraining));
  for (const Program& program : programs) {
    std::vector<int64_t> met;
    for (const Instruction& i : program.instructions) {
      if (i.op != OpKind::kAttentionPart || i.micro_batch > 0) continue;
      EXPECT_EQ(i.args.q_part, program.rank);
      met.push_back(i.args.kv_part);
    }
    const int64_t r = program.rank;
    EXPECT_EQ(met, (std::vector<int64_t>{r, (r + 2) % 3, (r + 1) % 3}));
  }
}

TEST(RingAttention, RefusesAShiftOfWhatIsNotSplit) {
  Graph g;
  const ValueId x = g.add_source(
      OpKind::kInput, "x", TensorType{DType::kF32, {8, 4}, {}}.with(Axis::kCp, replicate()), {});
  Attrs attrs;
  attrs.axes = Axis::kCp;
  EXPECT_THROW(g.add_one(OpKind::kShift, {x}, "y", attrs, {}), TypeError);
}

}  // namespace
}  // namespace tessera
