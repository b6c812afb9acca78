// The gradient rules of the table of ops are the duals of its forward rules: derived here and
// compared, by the table and by type-checking real nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tessera {
namespace {

using Row = std::vector<Placement>;

std::string text_of(AxisSet axes, const Row& inputs, const Row& outputs) {
  std::string text = name_of(axes);
  for (const Placement p : inputs) text += " " + to_string(p);
  text += " >";
  for (const Placement p : outputs) text += " " + to_string(p);
  return text;
}

std::set<std::string> rules_of(OpKind op) {
  std::set<std::string> rules;
  for (const PlacementRule& rule : placement_rules(op)) {
    rules.insert(text_of(rule.axes, rule.inputs, rule.outputs));
  }
  return rules;
}

// How a gradient op is called: from the inputs and outputs of a forward rule to its own.
struct Derivation {
  OpKind forward;
  OpKind gradient;
  std::function<Row(const Row& in, const Row& out)> inputs;
  std::function<Row(const Row& in)> outputs;
};

const std::vector<Derivation>& derivations() {
  static const std::vector<Derivation> kAll = {
      {OpKind::kLinear, OpKind::kLinearDx,
       [](const Row& in, const Row& out) {
         return Row{dual(out[0]), in[1]};
       },
       [](const Row& in) { return Row{dual(in[0])}; }},
      {OpKind::kLinear, OpKind::kLinearDw,
       [](const Row& in, const Row& out) {
         return Row{dual(out[0]), in[0]};
       },
       [](const Row& in) { return Row{dual(in[1])}; }},
      {OpKind::kEmbedding, OpKind::kEmbeddingDw,
       [](const Row& in, const Row& out) {
         return Row{in[0], dual(out[0])};
       },
       [](const Row& in) { return Row{dual(in[1])}; }},
      {OpKind::kRmsNorm, OpKind::kRmsNormDx,
       [](const Row& in, const Row& out) {
         return Row{dual(out[0]), in[0], in[1], out[1]};
       },
       [](const Row& in) { return Row{dual(in[0])}; }},
      {OpKind::kRmsNorm, OpKind::kRmsNormDw,
       [](const Row& in, const Row& out) {
         return Row{dual(out[0]), in[0], out[1]};
       },
       [](const Row& in) { return Row{dual(in[1])}; }},
      {OpKind::kAttention, OpKind::kAttentionGrad,
       [](const Row& in, const Row& out) {
         return Row{in[0], in[1], out[0], out[1], dual(out[0])};
       },
       [](const Row& in) {
         return Row{dual(in[0]), dual(in[1])};
       }},
      {OpKind::kSwiGlu, OpKind::kSwiGluGrad,
       [](const Row& in, const Row& out) {
         return Row{dual(out[0]), in[0]};
       },
       [](const Row& in) { return Row{dual(in[0])}; }},
      {OpKind::kRope, OpKind::kRope, [](const Row&, const Row& out) { return Row{dual(out[0])}; },
       [](const Row& in) { return Row{dual(in[0])}; }},
      {OpKind::kAddBias, OpKind::kBiasDw,
       [](const Row&, const Row& out) { return Row{dual(out[0])}; },
       [](const Row& in) { return Row{dual(in[1])}; }},
      {OpKind::kLayerNorm, OpKind::kLayerNormDx,
       [](const Row& in, const Row& out) {
         return Row{dual(out[0]), in[0], in[1], out[1]};
       },
       [](const Row& in) { return Row{dual(in[0])}; }},
      {OpKind::kLayerNorm, OpKind::kLayerNormDw,
       [](const Row& in, const Row& out) {
         return Row{dual(out[0]), in[0], out[1]};
       },
       [](const Row& in) { return Row{dual(in[1])}; }},
      {OpKind::kGelu, OpKind::kGeluGrad,
       [](const Row& in, const Row& out) {
         return Row{dual(out[0]), in[0]};
       },
       [](const Row& in) { return Row{dual(in[0])}; }},
      {OpKind::kAddPositions, OpKind::kPositionsDw,
       [](const Row&, const Row& out) { return Row{dual(out[0])}; },
       [](const Row& in) { return Row{dual(in[1])}; }},
      {OpKind::kHeadNorm, OpKind::kHeadNormDx,
       [](const Row& in, const Row& out) {
         return Row{dual(out[0]), in[0], in[1], out[1]};
       },
       [](const Row& in) { return Row{dual(in[0])}; }},
      {OpKind::kHeadNorm, OpKind::kHeadNormDw,
       [](const Row& in, const Row& out) {
         return Row{dual(out[0]), in[0], out[1]};
       },
       [](const Row& in) { return Row{dual(in[1])}; }},
      {OpKind::kDropout, OpKind::kDropout,
       [](const Row&, const Row& out) { return Row{dual(out[0])}; },
       [](const Row& in) { return Row{dual(in[0])}; }},
      // stats labels logits; the loss itself is where the gradient starts.
      {OpKind::kCrossEntropyLoss, OpKind::kCrossEntropyGrad,
       [](const Row& in, const Row&) {
         return Row{in[2], in[0], in[1]};
       },
       [](const Row& in) { return Row{dual(in[2])}; }},
      {OpKind::kRouter, OpKind::kRouterGrad,
       [](const Row&, const Row& out) {
         return Row{dual(out[0]), out[0], out[1]};
       },
       [](const Row& in) { return Row{dual(in[0])}; }},
      {OpKind::kRouterStats, OpKind::kRouterStatsGrad,
       [](const Row& in, const Row& out) {
         return Row{in[0], dual(out[0])};
       },
       [](const Row& in) { return Row{dual(in[0])}; }},
      {OpKind::kDispatch, OpKind::kDispatchGrad,
       [](const Row&, const Row& out) {
         return Row{dual(out[0]), out[2]};
       },
       [](const Row& in) { return Row{dual(in[0])}; }},
      {OpKind::kExpertLinear, OpKind::kExpertLinearDx,
       [](const Row& in, const Row& out) {
         return Row{dual(out[0]), in[1], in[2]};
       },
       [](const Row& in) { return Row{dual(in[0])}; }},
      {OpKind::kExpertLinear, OpKind::kExpertLinearDw,
       [](const Row& in, const Row& out) {
         return Row{dual(out[0]), in[0], in[2]};
       },
       [](const Row& in) { return Row{dual(in[1])}; }},
      {OpKind::kExpertSwiGlu, OpKind::kExpertSwiGluGrad,
       [](const Row& in, const Row& out) {
         return Row{dual(out[0]), in[0], in[1]};
       },
       [](const Row& in) { return Row{dual(in[0])}; }},
      {OpKind::kCombine, OpKind::kCombineGrad,
       [](const Row& in, const Row& out) {
         return Row{dual(out[0]), in[0], in[1], in[2]};
       },
       [](const Row& in) {
         return Row{dual(in[0]), dual(in[2])};
       }},
      {OpKind::kBalanceLoss, OpKind::kBalanceGrad,
       [](const Row& in, const Row&) { return Row{in[0]}; },
       [](const Row& in) { return Row{dual(in[0])}; }},
  };
  return kAll;
}

TEST(PlacementRules, GradientRulesAreTheDualsOfTheForwardRules) {
  for (const Derivation& d : derivations()) {
    std::set<std::string> derived;
    for (const PlacementRule& rule : placement_rules(d.forward)) {
      derived.insert(
          text_of(rule.axes, d.inputs(rule.inputs, rule.outputs), d.outputs(rule.inputs)));
    }
    EXPECT_EQ(rules_of(d.gradient), derived) << name_of(d.gradient);
  }
}

// The gradient of a sum goes to both terms unchanged, so its rules must be their own duals.
TEST(PlacementRules, AddIsItsOwnDual) {
  const std::set<std::string> rules = rules_of(OpKind::kAdd);
  for (const PlacementRule& rule : placement_rules(OpKind::kAdd)) {
    EXPECT_EQ(rule.inputs[0], rule.outputs[0]);
    EXPECT_EQ(rule.inputs[1], rule.outputs[0]);
    const Placement d = dual(rule.outputs[0]);
    EXPECT_TRUE(rules.contains(text_of(AxisSet::all(), {d, d}, {d})));
  }
}

// The fused op takes what an addition followed by a norm takes.
TEST(PlacementRules, AddRmsNormIsAnAdditionThenANorm) {
  std::set<std::string> derived;
  for (const PlacementRule& add : placement_rules(OpKind::kAdd)) {
    for (const PlacementRule& norm : placement_rules(OpKind::kRmsNorm)) {
      if (!(add.outputs[0] == norm.inputs[0])) continue;
      derived.insert(text_of(AxisSet::all(), {add.inputs[0], add.inputs[1], norm.inputs[1]},
                             {add.outputs[0], norm.outputs[0], norm.outputs[1]}));
    }
  }
  EXPECT_EQ(rules_of(OpKind::kAddRmsNorm), derived);
}

TEST(PlacementRules, AddLayerNormIsAnAdditionThenANorm) {
  std::set<std::string> derived;
  for (const PlacementRule& add : placement_rules(OpKind::kAdd)) {
    for (const PlacementRule& norm : placement_rules(OpKind::kLayerNorm)) {
      if (!(add.outputs[0] == norm.inputs[0])) continue;
      derived.insert(text_of(AxisSet::all(),
                             {add.inputs[0], add.inputs[1], norm.inputs[1], norm.inputs[2]},
                             {add.outputs[0], norm.outputs[0], norm.outputs[1]}));
    }
  }
  EXPECT_EQ(rules_of(OpKind::kAddLayerNorm), derived);
}

// Whoever adds something to every row passes the gradient of the rows on unchanged.
TEST(PlacementRules, AddedRowsPassTheGradientOn) {
  for (const OpKind op : {OpKind::kAddBias, OpKind::kAddPositions}) {
    for (const PlacementRule& rule : placement_rules(op)) {
      EXPECT_EQ(rule.inputs[0], rule.outputs[0]) << name_of(op);
    }
  }
}

constexpr int64_t kTokens = 4, kWidth = 8, kOut = 6, kHeads = 2, kVocab = 10;

struct Operand {
  DType dtype;
  Shape shape;
};

// Input shapes of every op under test.
const std::map<OpKind, std::vector<Operand>>& operands_under_test() {
  const DType f = DType::kF32;
  const Operand x{f, {kTokens, kWidth}}, y{f, {kTokens, kOut}}, w{f, {kOut, kWidth}};
  const Operand ids{DType::kI32, {kTokens}}, norm{f, {kWidth}}, rstd{f, {kTokens}};
  const Operand pairs{f, {kTokens, 2}}, table{f, {kVocab, kWidth}}, head{f, {kWidth / kHeads}};
  const Operand lse{f, {kTokens, kHeads}}, half{f, {kTokens, kWidth / 2}};
  static const std::map<OpKind, std::vector<Operand>> kAll = {
      {OpKind::kLinear, {x, w}},
      {OpKind::kLinearDx, {y, w}},
      {OpKind::kLinearDw, {y, x}},
      {OpKind::kEmbedding, {ids, table}},
      {OpKind::kEmbeddingDw, {ids, x}},
      {OpKind::kRmsNorm, {x, norm}},
      {OpKind::kRmsNormDx, {x, x, norm, rstd}},
      {OpKind::kRmsNormDw, {x, x, rstd}},
      {OpKind::kRope, {x}},
      {OpKind::kAttention, {x, x}},
      {OpKind::kAttentionGrad, {x, x, x, lse, x}},
      {OpKind::kSwiGlu, {x}},
      {OpKind::kSwiGluGrad, {half, x}},
      {OpKind::kAddBias, {x, norm}},
      {OpKind::kBiasDw, {x}},
      {OpKind::kLayerNorm, {x, norm, norm}},
      {OpKind::kLayerNormDx, {x, x, norm, pairs}},
      {OpKind::kLayerNormDw, {x, x, pairs}},
      {OpKind::kGelu, {x}},
      {OpKind::kGeluGrad, {x, x}},
      {OpKind::kAddPositions, {x, table}},
      {OpKind::kPositionsDw, {x}},
      {OpKind::kHeadNorm, {x, head}},
      {OpKind::kHeadNormDx, {x, x, head, lse}},
      {OpKind::kHeadNormDw, {x, x, lse}},
  };
  return kAll;
}

// Adds one node whose inputs are placed so on `axis`, and gives the placements of its outputs.
Row placed(OpKind op, const Row& inputs, Axis axis) {
  Graph graph;
  std::vector<ValueId> ids;
  const std::vector<Operand>& operands = operands_under_test().at(op);
  for (size_t i = 0; i < operands.size(); ++i) {
    const TensorType type =
        TensorType{operands[i].dtype, operands[i].shape, {}}.with(axis, inputs[i]);
    ids.push_back(graph.add_source(OpKind::kInput, fmt::format("in{}", i), type, {}));
  }
  Attrs attrs;
  attrs.heads = attrs.kv_heads = kHeads;
  attrs.head_dim = kWidth / kHeads;
  attrs.rows = attrs.vocab = kVocab;
  const size_t outputs = placement_rules(op).front().outputs.size();
  std::vector<std::string> names = {"out0", "out1"};
  names.resize(outputs);
  Row row;
  for (const ValueId id : graph.add(op, ids, names, attrs, {})) {
    for (const Axis other : kAllAxes) {
      if (other == axis) continue;
      EXPECT_EQ(graph.type(id).on(other), invariant());
    }
    row.push_back(graph.type(id).on(axis));
  }
  return row;
}

TEST(PlacementRules, GradientOpsTypeCheckForEveryForwardRule) {
  int checked = 0;
  for (const Derivation& d : derivations()) {
    if (!operands_under_test().contains(d.forward)) continue;
    for (const PlacementRule& rule : placement_rules(d.forward)) {
      for (const Axis axis : {Axis::kDp, Axis::kFsdp, Axis::kCp, Axis::kTp}) {
        if (!rule.axes.contains(axis)) continue;
        SCOPED_TRACE(fmt::format("{} on {}: {}", name_of(d.gradient), name_of(axis),
                                 text_of(AxisSet::all(), rule.inputs, rule.outputs)));
        const Row out = placed(d.forward, rule.inputs, axis);
        EXPECT_EQ(out, rule.outputs);
        EXPECT_EQ(placed(d.gradient, d.inputs(rule.inputs, out), axis), d.outputs(rule.inputs));
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 60);
}

// All 25 pairs on tp: a product takes these five and no other.
TEST(PlacementRules, LinearTakesFivePairsAndRefusesTheRest) {
  const std::set<std::string> legal = {" I I", " S(0) R", " R S(0)", " S(1) S(1)", " R R"};
  const Row all = {invariant(), replicate(), partial(), split(0), split(1)};
  for (const Placement x : all) {
    for (const Placement w : all) {
      const std::string pair = " " + to_string(x) + " " + to_string(w);
      if (legal.contains(pair)) {
        EXPECT_NO_THROW(placed(OpKind::kLinear, {x, w}, Axis::kTp)) << pair;
      } else {
        EXPECT_THROW(placed(OpKind::kLinear, {x, w}, Axis::kTp), TypeError) << pair;
      }
    }
  }
}

// The bias of a row-split product, whose result is a partial sum, must wait for the sum.
TEST(PlacementRules, ABiasIsNotAddedToAPartialSum) {
  for (const Placement bias : {invariant(), replicate(), partial(), split(0)}) {
    EXPECT_THROW(placed(OpKind::kAddBias, {partial(), bias}, Axis::kTp), TypeError);
  }
  EXPECT_EQ(placed(OpKind::kAddBias, {split(0), replicate()}, Axis::kTp), Row{split(0)});
  EXPECT_THROW(placed(OpKind::kAddBias, {split(0), invariant()}, Axis::kTp), TypeError);
}

TEST(PlacementRules, WholeSequencesMayBeSplitOnlyOverData) {
  EXPECT_EQ(placed(OpKind::kRope, {split(0)}, Axis::kDp), Row{split(0)});
  EXPECT_THROW(placed(OpKind::kRope, {split(0)}, Axis::kTp), TypeError);
  EXPECT_THROW(placed(OpKind::kAttention, {split(0), split(0)}, Axis::kTp), TypeError);
  EXPECT_THROW(placed(OpKind::kAttention, {split(0), replicate()}, Axis::kTp), TypeError);
}

// On cp, either every rank has all keys, or a ring brings them round.
TEST(PlacementRules, SequencesMayBeSplitOverCp) {
  EXPECT_EQ(placed(OpKind::kRope, {split(0)}, Axis::kCp), Row{split(0)});
  EXPECT_EQ(placed(OpKind::kAttention, {split(0), split(0)}, Axis::kCp), (Row{split(0), split(0)}));
  EXPECT_EQ(placed(OpKind::kAttention, {split(0), replicate()}, Axis::kCp),
            (Row{split(0), split(0)}));
  EXPECT_THROW(placed(OpKind::kAttention, {split(0), replicate()}, Axis::kDp), TypeError);
}

}  // namespace
}  // namespace tessera
