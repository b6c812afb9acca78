// What recomputation keeps, what it does again, and what that saves.
#include "compile/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compile/rewrite.h"
#include "compile/step.h"
#include "compile/test_spec.h"

namespace tessera {
namespace {

using testing::resolved;
using testing::small_spec;

RunSpec spec_on(const std::string& mesh, int64_t layers) {
  RunSpec spec = small_spec(mesh);
  spec.model.layers = layers;
  return resolved(spec);
}

StepGraph step_of(const std::string& mesh, int64_t layers) {
  return build_step(spec_on(mesh, layers), StepKind::kTraining);
}

// The results of forward ops that are still read after the forward pass, in order. The loss and
// what only renames memory are left out.
std::vector<std::string> kept_by_blocks(const StepGraph& step) {
  const int head = step.layout.num_units - 1;
  std::set<ValueId> read;
  for (const Node& node : step.graph().nodes()) {
    if (!is_backward(node) && node.tag.pass != Pass::kRecompute) continue;
    if (node.tag.unit != head) read.insert(node.inputs.begin(), node.inputs.end());
  }
  std::vector<std::string> kept;
  for (const Node& node : step.graph().nodes()) {
    const bool computes = node.op != OpKind::kCast && node.op != OpKind::kViews &&
                          node.op != OpKind::kInput && node.op != OpKind::kParameter;
    if (node.tag.pass != Pass::kForward || !computes) continue;
    for (const ValueId out : node.outputs) {
      if (read.contains(out)) kept.push_back(step.graph().value(out).name);
    }
  }
  return kept;
}

TEST(Recompute, FullKeepsTheInputOfEachBlockOnly) {
  const std::vector<std::string> inputs = {"embed", "layers.0.out", "layers.1.out"};
  EXPECT_EQ(kept_by_blocks(step_of("recompute=full", 3)), inputs);
  EXPECT_EQ(kept_by_blocks(step_of("recompute=every-1", 3)), inputs);
}

TEST(Recompute, EveryKKeepsTheInputOfEachGroupOnly) {
  EXPECT_EQ(kept_by_blocks(step_of("recompute=every-2", 5)),
            (std::vector<std::string>{"embed", "layers.1.out", "layers.3.out"}));
  EXPECT_EQ(kept_by_blocks(step_of("recompute=every-5", 5)), (std::vector<std::string>{"embed"}));
}

TEST(Recompute, SelectiveKeepsTheProductsAndTheResidualStream) {
  EXPECT_EQ(kept_by_blocks(step_of("recompute=selective", 1)),
            (std::vector<std::string>{"embed", "layers.0.q.rope", "layers.0.kv.rope",
                                      "layers.0.mid", "layers.0.gate_up"}));
  // Sequence parallelism gathers the norms' results again, from norms that run again.
  EXPECT_EQ(kept_by_blocks(step_of("tp=2,sequence_parallel=true,recompute=selective", 1)),
            (std::vector<std::string>{"layers.0.q.rope", "layers.0.kv.rope", "layers.0.mid",
                                      "layers.0.gate_up"}));
}

TEST(Recompute, NoneKeepsEverythingThatGradientsRead) {
  EXPECT_EQ(
      kept_by_blocks(step_of("recompute=none", 1)),
      (std::vector<std::string>{"embed", "layers.0.attn_norm", "layers.0.attn_norm.rstd",
                                "layers.0.q.rope", "layers.0.kv.rope", "layers.0.attn",
                                "layers.0.attn.lse", "layers.0.mid", "layers.0.mlp_norm",
                                "layers.0.mlp_norm.rstd", "layers.0.gate_up", "layers.0.swiglu"}));
}

// ---- what runs again ----

std::map<OpKind, int> recomputed_kernels(const StepGraph& step) {
  std::map<OpKind, int> counts;
  for (const Instruction& i : lower(step, 0).instructions) {
    if (i.tag.pass == Pass::kRecompute && i.stream == StreamKind::kCompute) ++counts[i.op];
  }
  return counts;
}

TEST(Recompute, FullRunsTheForwardOfABlockAgainUpToItsLastProduct) {
  // Nobody reads the result of the last product, nor the sum after it.
  const std::map<OpKind, int> per_block = {
      {OpKind::kRmsNorm, 1},   {OpKind::kLinear, 4}, {OpKind::kRope, 2},
      {OpKind::kAttention, 1}, {OpKind::kSwiGlu, 1}, {OpKind::kAddRmsNorm, 1},
  };
  EXPECT_EQ(recomputed_kernels(step_of("recompute=full", 1)), per_block);
}

TEST(Recompute, SelectiveRunsNoProductAgain) {
  const std::map<OpKind, int> per_block = {
      {OpKind::kRmsNorm, 2}, {OpKind::kAttention, 1}, {OpKind::kSwiGlu, 1}};
  EXPECT_EQ(recomputed_kernels(step_of("recompute=selective", 1)), per_block);
}

std::map<std::string, int> gathers(const StepGraph& step) {
  std::map<std::string, int> counts;
  for (const Instruction& i : lower(step, 0).instructions) {
    if (i.collective == CastKind::kAllGather && i.tag.pass != Pass::kUpdate) ++counts[i.name];
  }
  return counts;
}

TEST(Recompute, GatheredInputsOfARecomputedBlockAreGatheredTwiceNotThrice) {
  for (const char* choice : {"none", "selective", "full", "every-2"}) {
    SCOPED_TRACE(choice);
    const auto counts =
        gathers(step_of(fmt::format("tp=2,sequence_parallel=true,recompute={}", choice), 2));
    EXPECT_EQ(counts.at("layers.0.attn_norm.full"), 2);
    EXPECT_EQ(counts.at("layers.1.mlp_norm.full"), 2);
  }
}

TEST(Recompute, WeightsAreGatheredOnceForARecomputationAndItsBackward) {
  for (const char* choice : {"none", "selective", "full"}) {
    SCOPED_TRACE(choice);
    const auto counts = gathers(step_of(fmt::format("fsdp=2,recompute={}", choice), 2));
    EXPECT_EQ(counts.at("layers.0.matrices.full"), 2);
    EXPECT_EQ(counts.at("layers.1.norms.full"), 2);
  }
  // In a group only the last block's backward follows its recomputation at once.
  const auto counts = gathers(step_of("fsdp=2,recompute=every-2", 2));
  EXPECT_EQ(counts.at("layers.0.matrices.full"), 3);
  EXPECT_EQ(counts.at("layers.1.matrices.full"), 2);
}

// ---- memory ----

int64_t activation_bytes(const std::string& mesh, int64_t layers, int64_t hidden, int64_t seq_len) {
  RunSpec spec = small_spec(mesh);
  spec.model.layers = layers;
  spec.model.hidden = hidden;
  spec.model.ffn = 3 * hidden;
  spec.model.head_dim = hidden / 4;
  spec.train.seq_len = seq_len;
  spec.train.loss_chunk = 16;
  const Program program = lower(build_step(resolved(spec), StepKind::kTraining), 0);
  return program.arena_bytes[static_cast<size_t>(ArenaKind::kActivations)];
}

TEST(RecomputeMemory, FullIsLessThanSelectiveIsLessThanNone) {
  struct Size {
    int64_t layers, hidden, seq_len;
  };
  for (const std::string mesh :
       {"dp=1,", "dp=2,zero=1,", "fsdp=2,", "tp=2,", "tp=2,sequence_parallel=true,"}) {
    for (const Size& s : {Size{4, 16, 32}, Size{6, 64, 64}, Size{12, 32, 128}}) {
      SCOPED_TRACE(fmt::format("{} layers={} hidden={}", mesh, s.layers, s.hidden));
      const auto bytes = [&](const std::string& choice) {
        return activation_bytes(mesh + "recompute=" + choice, s.layers, s.hidden, s.seq_len);
      };
      EXPECT_LT(bytes("full"), bytes("selective"));
      EXPECT_LT(bytes("selective"), bytes("none"));
      EXPECT_LT(bytes("every-2"), bytes("none"));
    }
  }
}

// One more block costs what is kept of it. H width, attention H, ffn 3H, four heads; f32.
TEST(RecomputeMemory, AnotherBlockCostsWhatIsKeptOfIt) {
  constexpr int64_t kHidden = 64, kTokens = 64, kRow = kHidden * 4;
  const auto per_block = [&](const std::string& choice, int64_t blocks) {
    const std::string mesh = "recompute=" + choice;
    return (activation_bytes(mesh, 8 + blocks, kHidden, kTokens) -
            activation_bytes(mesh, 8, kHidden, kTokens)) /
           kTokens;
  };
  // x, two norms, q, kv, attention, mid, gate_up, swiglu; rstd twice, lse.
  EXPECT_EQ(per_block("none", 1), (1 + 2 + 1 + 2 + 1 + 1 + 6 + 3) * kRow + (2 + 4) * 4);
  // x, q, kv, mid, gate_up
  EXPECT_EQ(per_block("selective", 1), (1 + 1 + 2 + 1 + 6) * kRow);
  EXPECT_EQ(per_block("full", 1), kRow);
  EXPECT_EQ(per_block("every-4", 4), kRow) << "four blocks, one input";
}

TEST(RecomputeMemory, TheSquareRootOfTheLayersNeedsLeast) {
  // 64 blocks: every-K holds 64/K inputs of one row and K whole blocks of 17 rows.
  const auto bytes = [](int64_t k) {
    return activation_bytes(fmt::format("recompute=every-{}", k), 64, 64, 64);
  };
  EXPECT_LT(bytes(2), bytes(1));
  EXPECT_LT(bytes(2), bytes(8));
  EXPECT_LT(bytes(8), bytes(64));
}

}  // namespace
}  // namespace tessera
