// The table has what its readers rely on, and what makes a row complete can refuse one.
#include "graph/op_table.h"

#include <gtest/gtest.h>

#include <set>
#include <type_traits>

#include "graph/ops/placement_text.h"

namespace tessera {
namespace {

struct NamedRow {
  OpKind kind;
  int number;
};

TEST(OpTable, EveryOpFindsItsOwnRow) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kNumOps; ++i) {
    const auto op = static_cast<OpKind>(i);
    EXPECT_EQ(row_of(op).kind, op);
    EXPECT_TRUE(names.insert(name_of(op)).second) << name_of(op) << " is the name of two ops";
  }
  EXPECT_EQ(name_of(OpKind::kInput), "input");
  EXPECT_EQ(name_of(OpKind::kRmsNormGrad), "rms_norm_grad");
}

TEST(OpTable, RowsOfFamiliesComeInTheOrderOfOps) {
  const NamedRow one[] = {{OpKind::kViews, 2}, {OpKind::kInput, 0}};
  const NamedRow other[] = {{OpKind::kParameter, 1}};
  const std::array<NamedRow, 3> rows = rows_by_op<3>(one, other);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].number, static_cast<int>(i));
}

// At compile time such a throw is an error.
TEST(OpTable, RefusesAnOpWithoutARowAndOneWithTwo) {
  const NamedRow one[] = {{OpKind::kInput, 0}, {OpKind::kViews, 2}};
  const NamedRow again[] = {{OpKind::kParameter, 1}, {OpKind::kInput, 0}};
  EXPECT_THROW((rows_by_op<3>(one)), std::logic_error);
  EXPECT_THROW((rows_by_op<3>(one, again)), std::logic_error);
}

TEST(OpTable, WhatARowMustSayHasNoDefault) {
  static_assert(!std::is_default_constructible_v<OpRow>);
  static_assert(!std::is_default_constructible_v<Given<Adds>>);
  static_assert(!std::is_default_constructible_v<Signature>);
  static_assert(!std::is_default_constructible_v<RuleTexts>);
  static_assert(!std::is_default_constructible_v<Gradient>);
  static_assert(!std::is_default_constructible_v<StorageRule>);
  SUCCEED() << "it compiled";
}

TEST(OpTable, SignaturesCountOperands) {
  const Signature part("q kv [o lse] > o lse");
  EXPECT_FALSE(part.inputs().contains(1));
  EXPECT_TRUE(part.inputs().contains(2));
  EXPECT_TRUE(part.inputs().contains(4));
  EXPECT_FALSE(part.inputs().contains(5));
  EXPECT_TRUE(part.outputs().contains(2));
  EXPECT_FALSE(part.outputs().contains(3));
  EXPECT_TRUE(Signature("> y").inputs().contains(0));
  EXPECT_FALSE(Signature("chunks... > tokens").inputs().contains(0));
  EXPECT_TRUE(Signature("chunks... > tokens").inputs().contains(17));
  EXPECT_TRUE(Signature("loss [sums...] > metrics").inputs().contains(1));
  EXPECT_TRUE(Signature("loss [sums...] > metrics").inputs().contains(9));
  EXPECT_THROW(Signature("x y"), std::logic_error);
}

TEST(OpTable, RulesThatDoNotFitTheSignatureAreSeen) {
  const Signature linear("x weight > y");
  EXPECT_TRUE(ops::fits_signature("tokens S0 R > S0", linear));
  EXPECT_FALSE(ops::fits_signature("S0 > S0", linear));
  EXPECT_FALSE(ops::fits_signature("S0 R > S0 S0", linear));
  EXPECT_FALSE(ops::fits_signature("S0 Q > S0", linear));
  EXPECT_FALSE(ops::fits_signature("dp S0 R > S0", linear));
}

TEST(OpTable, WhatMayBeOverwrittenIsAnOperand) {
  int overwrites = 0;
  for (size_t i = 0; i < kNumOps; ++i) {
    const OpRow& row = row_of(static_cast<OpKind>(i));
    for (const Overwrite& over : row.storage.overwrites()) {
      EXPECT_LT(over.input, row.signature.inputs().most) << row.signature.text();
      EXPECT_LT(over.output, row.signature.outputs().most) << row.signature.text();
      ++overwrites;
    }
  }
  EXPECT_GT(overwrites, 10);
}

// Lowering makes a kernel of what a graph has; all else has no rules to be in one.
TEST(OpTable, WhatIsNeverInAGraphHasNoTypeRule) {
  for (size_t i = 0; i < kNumOps; ++i) {
    const OpRow& row = row_of(static_cast<OpKind>(i));
    if (row.kernel.lowered != Lowered::kNotInGraph) continue;
    EXPECT_TRUE(row.rules.all().empty()) << row.signature.text();
    Graph graph;
    std::vector<ValueId> inputs;
    for (int in = 0; in < row.signature.inputs().least; ++in) {
      inputs.push_back(graph.add_source(OpKind::kInput, "x", {DType::kF32, {2, 2}, {}}, {}));
    }
    EXPECT_THROW(graph.add_one(row.kind, inputs, "y", {}, {}), TypeError) << row.signature.text();
  }
}

TEST(OpTable, ANodeWithTooFewInputsIsRefusedByItsSignature) {
  Graph graph;
  const ValueId x = graph.add_source(OpKind::kInput, "x", {DType::kF32, {2, 2}, {}}, {});
  try {
    graph.add_one(OpKind::kLinear, {x}, "y", {}, {});
    FAIL() << "a product of one matrix";
  } catch (const TypeError& error) {
    EXPECT_STREQ(error.what(), "linear 'y': takes 'x weight > y' but has 1 inputs");
  }
}

}  // namespace
}  // namespace tessera
