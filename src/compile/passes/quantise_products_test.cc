#include "compile/passes/quantise_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

using testing::resolved;
using testing::small_spec;

RunSpec fp8_spec(const std::string& mesh, Fp8Recipe recipe = Fp8Recipe::kTensor) {
  RunSpec spec = small_spec(mesh);
  spec.train.dtype = DType::kBF16;
  spec.train.fp8.asked = true;
  spec.train.fp8.recipe = recipe;
  spec.train.seq_len = 16;
  if (recipe == Fp8Recipe::kBlock) spec.train.fp8.block = 4;
  return resolved(spec);
}

std::map<OpKind, int> counts(const Graph& graph) {
  std::map<OpKind, int> found;
  for (const Node& node : graph.nodes()) ++found[node.op];
  return found;
}

Graph graph_of(const RunSpec& spec) { return build_step(spec, StepKind::kTraining).forward.graph; }

const Node& node_named(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes()) {
    if (node.name == name) return node;
  }
  throw std::logic_error("no node " + name);
}

TEST(QuantiseProducts, TakesTheProductsOfTheBlocksAndNoOther) {
  std::map<OpKind, int> found = counts(graph_of(fp8_spec("dp=1")));
  EXPECT_EQ(found[OpKind::kFp8Linear], 2 * 5);
  EXPECT_EQ(found[OpKind::kFp8LinearDx], 2 * 5);
  EXPECT_EQ(found[OpKind::kFp8LinearDw], 2 * 5);
  EXPECT_GE(found[OpKind::kLinear], 1) << "the head stays as it is";
  RunSpec spec = fp8_spec("dp=1");
  spec.train.fp8.bf16_first = 1;
  const Graph graph = graph_of(spec);
  for (const Node& node : graph.nodes()) {
    EXPECT_TRUE(!multiplies_codes(node.op) || node.tag.unit == 2) << node.name;
  }
}

TEST(QuantiseProducts, ServingAndEvaluationStayInBf16) {
  const StepGraph step = build_step(fp8_spec("dp=1"), StepKind::kForward);
  for (const Node& node : step.forward.graph.nodes()) {
    EXPECT_FALSE(multiplies_codes(node.op)) << node.name;
  }
}

// What ranks share has one scale; what they do not share needs no word of others.
TEST(QuantiseProducts, ScalesAreAgreedOnWhereRanksShareThem) {
  const auto agreed = [](const std::string& mesh, Fp8Recipe recipe) {
    const RunSpec spec = fp8_spec(mesh, recipe);
    const StepGraph step = build_step(spec, StepKind::kTraining);
    std::set<std::string> names;
    for (const Instruction& i : lower(step, 0).instructions) {
      if (i.maximum) names.insert(i.name);
    }
    return names;
  };
  const auto has = [](const std::set<std::string>& names, const std::string& part) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name.find(part) != std::string::npos;
    });
  };
  EXPECT_TRUE(agreed("dp=4", Fp8Recipe::kTensor).empty()) << "replicas have scales of their own";
  EXPECT_TRUE(agreed("fsdp=2,zero=3", Fp8Recipe::kRow).empty());
  const std::set<std::string> tensor = agreed("tp=2", Fp8Recipe::kTensor);
  EXPECT_TRUE(has(tensor, "layers.0.q.weight.e4m3.amax")) << "a weight that is split by rows";
  EXPECT_TRUE(has(tensor, "layers.0.swiglu.e4m3.amax")) << "columns of an activation";
  EXPECT_TRUE(has(tensor, "d(layers.0.gate_up).e5m2.b.amax")) << "and of a gradient";
  EXPECT_FALSE(has(tensor, "layers.0.mlp_norm.full.e4m3.amax")) << "all ranks have all of it";
  const std::set<std::string> row = agreed("tp=2", Fp8Recipe::kRow);
  EXPECT_FALSE(has(row, "layers.0.q.weight.e4m3.amax")) << "rows are whole";
  EXPECT_TRUE(has(row, "layers.0.o.weight.e4m3.amax")) << "rows are cut";
  EXPECT_TRUE(has(agreed("cp=2", Fp8Recipe::kRow), "layers.0.mlp_norm.full.e4m3.b.amax"))
      << "a column goes over all tokens";
  EXPECT_TRUE(agreed("cp=2", Fp8Recipe::kBlock).empty());
  EXPECT_TRUE(agreed("tp=2", Fp8Recipe::kBlock).empty());
}

// The same codes go into both products of a gradient, where one scale suits both.
TEST(QuantiseProducts, OneScaleForAllMakesCodesOnce) {
  const Graph graph = graph_of(fp8_spec("dp=1"));
  std::map<ValueId, int> readers;
  for (const Node& node : graph.nodes()) {
    if (multiplies_codes(node.op)) ++readers[node.inputs[0]];
  }
  const Node& dx = node_named(graph, "d(layers.0.attn)");
  EXPECT_EQ(dx.op, OpKind::kFp8LinearDx);
  EXPECT_EQ(readers[dx.inputs[0]], 2);
}

TEST(QuantiseProducts, AScaleThatNobodyAgreedOnIsRefusedByName) {
  const RunSpec spec = fp8_spec("tp=2");
  const auto without_casts = [](const std::string& pass, Graph& graph) {
    if (pass != "quantise_products") return;
    std::map<ValueId, ValueId> uncast;
    for (Node& node : graph.mutable_nodes()) {
      for (ValueId& in : node.inputs) {
        if (uncast.contains(in)) in = uncast[in];
      }
      if (node.op == OpKind::kCast && node.name.ends_with(".amax.all")) {
        uncast[node.outputs[0]] = node.inputs[0];
      }
    }
  };
  try {
    build_step(spec, StepKind::kTraining, without_casts);
    FAIL() << "every rank would round with a scale of its own";
  } catch (const TypeError& error) {
    const std::string why = error.what();
    EXPECT_NE(why.find("is M"), std::string::npos) << why;
    EXPECT_NE(why.find("would have to be I on"), std::string::npos) << why;
  }
}

// The backward pass makes codes anew, from what it keeps in bf16.
TEST(QuantiseProducts, NoCodesAreKeptForTheBackwardPass) {
  RunSpec spec = fp8_spec("dp=1");
  spec.train.seq_len = 64;
  spec.model.layers = 12;
  const auto activations = [](const RunSpec& run) {
    const Program program = lower(build_step(run, StepKind::kTraining), 0);
    return program.arena_bytes[static_cast<size_t>(ArenaKind::kActivations)];
  };
  const auto growth = [&](RunSpec run) {
    run.model.layers = 12;
    const int64_t deep = activations(run);
    run.model.layers = 8;
    return deep - activations(run);
  };
  RunSpec plain = spec;
  plain.train.fp8 = {};
  constexpr int64_t kOneByteOfEach = 4 * 64 * 16;  // of four blocks more: tokens, width
  EXPECT_LT(growth(spec) - growth(plain), kOneByteOfEach);
}

}  // namespace
}  // namespace tessera
