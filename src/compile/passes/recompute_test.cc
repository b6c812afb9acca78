// What recomputation keeps, what it does again, and what that saves.
#include "compile/passes/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compile/passes/passes.h"
#include "compile/passes/rewrite.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"

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

// The results of the forward pass that are still read after it, in order; the head's are left out.
std::vector<std::string> kept_by_blocks(const StepGraph& step) {
  const Graph& graph = step.graph();
  std::map<ValueId, ValueId> same;  // what a cast that moves nothing makes is what it reads
  std::set<ValueId> read;
  for (const Node& node : graph.nodes()) {
    if (node.op == OpKind::kCast && !communicates(graph, node, step.mesh)) {
      const auto before = same.find(node.inputs[0]);
      same[node.outputs[0]] = before == same.end() ? node.inputs[0] : before->second;
      continue;
    }
    const bool later = is_backward(node) || node.tag.pass == Pass::kRecompute;
    if (!later || node.tag.unit == step.layout.num_units - 1) continue;
    for (const ValueId in : node.inputs) read.insert(same.contains(in) ? same.at(in) : in);
  }
  std::vector<std::string> kept;
  for (const Node& node : graph.nodes()) {
    const bool source =
        node.op == OpKind::kViews || node.op == OpKind::kInput || node.op == OpKind::kParameter;
    if (node.tag.pass != Pass::kForward || source) continue;
    for (const ValueId out : node.outputs) {
      if (read.contains(out)) kept.push_back(graph.value(out).name);
    }
  }
  return kept;
}

std::map<OpKind, int> recomputed_kernels(const StepGraph& step) {
  std::map<OpKind, int> counts;
  for (const Instruction& i : lower(step, 0).instructions) {
    if (i.tag.pass == Pass::kRecompute && i.stream == StreamKind::kCompute) ++counts[i.op];
  }
  return counts;
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

TEST(Recompute, BlocksOfAStageMayDiffer) {
  EXPECT_EQ(kept_by_blocks(step_of("recompute=every-2:3+full", 5)),
            (std::vector<std::string>{"embed", "layers.1.out", "layers.2.out", "layers.3.out"}));
  const StepGraph step = step_of("recompute=full:1+norms:1+none", 3);
  const std::map<OpKind, int> full_and_norms = {
      {OpKind::kRmsNorm, 3},   {OpKind::kLinear, 4}, {OpKind::kRope, 2},
      {OpKind::kAttention, 1}, {OpKind::kSwiGlu, 1}, {OpKind::kAddRmsNorm, 1},
  };
  EXPECT_EQ(recomputed_kernels(step), full_and_norms);
  // Each stage counts its own blocks.
  const StepGraph two = step_of("pp=2,recompute=norms:1+none", 4);
  EXPECT_EQ(recomputed_kernels(two), (std::map<OpKind, int>{{OpKind::kRmsNorm, 2}}));
}

TEST(Recompute, SelectiveKeepsTheProductsAndTheResidualStream) {
  EXPECT_EQ(kept_by_blocks(step_of("recompute=selective", 1)),
            (std::vector<std::string>{"embed", "layers.0.q.rope", "layers.0.kv.rope",
                                      "layers.0.mid", "layers.0.gate_up"}));
  // Sequence parallelism gathers the norms' results again, from norms that run again.
  EXPECT_EQ(kept_by_blocks(step_of("tp=2,sequence_parallel=true,recompute=selective", 1)),
            (std::vector<std::string>{"embed.sum", "layers.0.q.rope", "layers.0.kv.rope",
                                      "layers.0.mid", "layers.0.gate_up"}));
}

TEST(Recompute, LightKeepsAttentionToo) {
  EXPECT_EQ(
      kept_by_blocks(step_of("recompute=light", 1)),
      (std::vector<std::string>{"embed", "layers.0.q.rope", "layers.0.kv.rope", "layers.0.attn",
                                "layers.0.attn.lse", "layers.0.mid", "layers.0.gate_up"}));
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

TEST(Recompute, NormsAloneRunAgain) {
  EXPECT_EQ(kept_by_blocks(step_of("recompute=norms", 1)),
            (std::vector<std::string>{"embed", "layers.0.q.rope", "layers.0.kv.rope",
                                      "layers.0.attn", "layers.0.attn.lse", "layers.0.mid",
                                      "layers.0.gate_up", "layers.0.swiglu"}));
  const std::map<OpKind, int> per_block = {{OpKind::kRmsNorm, 2}};
  EXPECT_EQ(recomputed_kernels(step_of("recompute=norms", 1)), per_block);
}

TEST(Recompute, LightRunsNormsAndActivationsAgain) {
  const std::map<OpKind, int> per_block = {{OpKind::kRmsNorm, 2}, {OpKind::kSwiGlu, 1}};
  EXPECT_EQ(recomputed_kernels(step_of("recompute=light", 1)), per_block);
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

// Activations of two micro-batches: gradients lie elsewhere.
int64_t activation_bytes(const std::string& mesh, int64_t layers, int64_t hidden, int64_t seq_len) {
  RunSpec spec = small_spec(mesh);
  spec.train.global_batch = 2 * spec.parallel.replicas();
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
      EXPECT_LT(bytes("selective"), bytes("light"));
      EXPECT_LT(bytes("light"), bytes("norms"));
      EXPECT_LT(bytes("norms"), bytes("none"));
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
  // x, q, kv, attention, mid, gate_up, swiglu; lse
  EXPECT_EQ(per_block("norms", 1), (1 + 1 + 2 + 1 + 1 + 6 + 3) * kRow + 4 * 4);
  // the same without swiglu
  EXPECT_EQ(per_block("light", 1), (1 + 1 + 2 + 1 + 1 + 6) * kRow + 4 * 4);
  // x, q, kv, mid, gate_up
  EXPECT_EQ(per_block("selective", 1), (1 + 1 + 2 + 1 + 6) * kRow);
  EXPECT_EQ(per_block("full", 1), kRow);
  EXPECT_EQ(per_block("every-4", 4), kRow) << "four blocks, one input";
}

// A micro-batch in flight keeps what the table says; what is computed again is there once.
TEST(RecomputeMemory, MicroBatchesInFlightKeepTheirInputsOnly) {
  constexpr int64_t kHidden = 64, kTokens = 64, kRow = kHidden * 4;
  const auto bytes = [&](const std::string& choice, int64_t micro_batches) {
    RunSpec spec = small_spec("pp=2,schedule=gpipe,recompute=" + choice);
    spec.model.layers = 8;
    spec.model.hidden = kHidden;
    spec.model.ffn = 3 * kHidden;
    spec.model.head_dim = kHidden / 4;
    spec.train.seq_len = kTokens;
    spec.train.global_batch = micro_batches;
    // The first stage: GPipe holds every micro-batch until the last one has gone forward.
    const Program program = lower(build_step(resolved(spec), StepKind::kTraining), 0);
    return program.arena_bytes[static_cast<size_t>(ArenaKind::kActivations)];
  };
  const int64_t tokens = kTokens * 4;  // ids of each micro-batch
  // Four blocks, each one input; the last one hands its result on, which the send keeps.
  const int64_t full = bytes("full", 6) - bytes("full", 5) - tokens;
  const int64_t none = bytes("none", 6) - bytes("none", 5) - tokens;
  EXPECT_GE(full, 4 * kRow * kTokens);
  EXPECT_LE(full, 6 * kRow * kTokens);
  EXPECT_GE(none, 4 * 17 * kRow * kTokens);
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
