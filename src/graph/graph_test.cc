#include "graph/graph.h"

#include <gtest/gtest.h>

#include "graph/differentiate.h"

namespace tessera {
namespace {

TensorType matrix(int64_t rows, int64_t cols) { return {DType::kF32, {rows, cols}, {}}; }

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const TypeError& e) {
    return e.what();
  }
  return "";
}

void expect_all_in(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
  }
}

TEST(Graph, RefusesPlacementsAndNamesTensorAxisAndWhatWouldFit) {
  Graph g;
  const ValueId x = g.add_source(OpKind::kInput, "x", matrix(4, 8).with(Axis::kTp, split(0)), {});
  const ValueId w = g.add_source(OpKind::kInput, "w", matrix(6, 8).with(Axis::kTp, split(0)), {});
  expect_all_in(error_of([&] {
                  g.add_one(OpKind::kLinear, {x, w}, "y", {}, {});
                }),
                {"linear 'y'", "axis tp", "'x' is S(0)", "'x' would have to be R on tp"});
  EXPECT_TRUE(g.nodes().size() == 2) << "a refused node must not stay in the graph";
}

TEST(Graph, RefusesCastsThatLoseOrDoubleASum) {
  Graph g;
  const ValueId r =
      g.add_source(OpKind::kInput, "r", matrix(4, 8).with(Axis::kDp, replicate()), {});
  const ValueId p = g.add_source(OpKind::kInput, "p", matrix(4, 8).with(Axis::kDp, partial()), {});
  expect_all_in(error_of([&] { g.cast(r, Axis::kDp, invariant(), "a", {}); }),
                {"'r' is R on axis dp", "cannot be cast to I"});
  expect_all_in(error_of([&] { g.cast(p, Axis::kTp, invariant(), "b", {}); }),
                {"'p' is I on axis tp", "cannot be cast to I"});
  const ValueId sum = g.cast(p, Axis::kDp, invariant(), "sum", {});
  EXPECT_EQ(g.type(sum).on(Axis::kDp), invariant());
  expect_all_in(error_of([&] { g.cast(sum, Axis::kDp, invariant(), "again", {}); }),
                {"'sum' is I on axis dp"});
}

TEST(Graph, OneCastMayCoverSeveralAxes) {
  Graph g;
  TensorType type = matrix(4, 8);
  type.placements.fill(partial());
  const ValueId p = g.add_source(OpKind::kInput, "p", type, {});
  const ValueId sum = g.cast(p, AxisSet::all(), invariant(), "sum", {});
  EXPECT_EQ(g.type(sum), matrix(4, 8));
}

TEST(Graph, RefusesShapesThatDoNotFit) {
  Graph g;
  const ValueId x = g.add_source(OpKind::kInput, "x", matrix(4, 8), {});
  const ValueId w = g.add_source(OpKind::kInput, "w", matrix(6, 7), {});
  expect_all_in(error_of([&] {
                  g.add_one(OpKind::kLinear, {x, w}, "y", {}, {});
                }),
                {"inner dimensions differ", "'x' f32 4x8", "'w' f32 6x7"});
  EXPECT_THROW(g.add_one(OpKind::kAdd, {x, w}, "y", {}, {}), TypeError);
  EXPECT_THROW(g.add_one(OpKind::kEmbedding, {x, w}, "y", {}, {}), TypeError);
}

TEST(Graph, CheckFindsReadsBeforeWritesAndSecondWrites) {
  Graph g;
  const ValueId x = g.add_source(OpKind::kInput, "x", matrix(4, 8), {});
  const ValueId a = g.add_one(OpKind::kAdd, {x, x}, "a", {}, {});
  g.add_one(OpKind::kAdd, {a, x}, "b", {}, {});
  EXPECT_NO_THROW(check_graph(g, "test"));

  Graph swapped = g;
  std::swap(swapped.mutable_nodes()[1], swapped.mutable_nodes()[2]);
  expect_all_in(error_of([&] { check_graph(swapped, "swap"); }),
                {"after pass swap", "'b' reads 'a' before it is written"});

  Graph twice = g;
  twice.mutable_nodes().push_back(twice.nodes()[1]);
  expect_all_in(error_of([&] { check_graph(twice, "copy"); }), {"'a' is written twice"});
}

TEST(Graph, CheckFindsATypeThatIsNotWhatTheOpGives) {
  Graph g;
  const ValueId x = g.add_source(OpKind::kInput, "x", matrix(4, 8).with(Axis::kTp, partial()), {});
  g.cast(x, Axis::kTp, invariant(), "sum", {});
  g.mutable_nodes()[1].attrs.to = replicate();
  expect_all_in(error_of([&] { check_graph(g, "test"); }), {"'sum'", "tp:R"});
}

TEST(Graph, AccumulateNeedsTheSameType) {
  Graph g;
  const ValueId dy = g.add_source(OpKind::kInput, "dy", matrix(4, 6), {});
  const ValueId x = g.add_source(OpKind::kInput, "x", matrix(4, 8), {});
  const ValueId before =
      g.add_source(OpKind::kInput, "before", matrix(6, 8).with(Axis::kDp, partial()), {});
  expect_all_in(error_of([&] {
                  g.add_one(OpKind::kLinearDw, {dy, x, before}, "dw", {}, {}, true);
                }),
                {"'before'", "dp:P"});
  EXPECT_THROW(g.add_one(OpKind::kAdd, {x, x, x}, "a", {}, {}, true), TypeError);
}

TEST(Graph, AdamWRefusesAGradientThatIsNotTheWeights) {
  Graph g;
  const TensorType weight{DType::kF32, {64}, {}};
  TensorType sums{DType::kF64, {4}, {}};
  const ValueId w = g.add_source(OpKind::kParameter, "w", weight, {}, 0);
  const ValueId metrics = g.add_source(OpKind::kInput, "metrics", sums, {});
  const auto update = [&](const TensorType& gradient, ValueId scale) {
    const ValueId dw = g.add_source(OpKind::kInput, "d(w)", gradient, {});
    return error_of([&] { g.add_one(OpKind::kAdamW, {w, dw, scale}, "updated", {}, {}); });
  };
  EXPECT_EQ(update(weight, metrics), "");
  expect_all_in(update(weight.with(Axis::kDp, partial()), metrics),
                {"'d(w)' is still a partial sum (P) on axis dp"});
  expect_all_in(update(weight.with(Axis::kFsdp, split(0)), metrics),
                {"'d(w)' is S(0) on axis fsdp but weight 'w' is I"});
  const ValueId own = g.add_source(OpKind::kInput, "own",
                                   TensorType{DType::kF64, {4}, {}}.with(Axis::kCp, partial()), {});
  expect_all_in(update(weight, own), {"'own' is P on axis cp"});
}

// Axes that come from the same placement go back in one cast; others need one of their own.
TEST(Differentiate, TheGradientOfACastOverSeveralAxesIsOneCastPerPlacement) {
  Graph g;
  const TensorType labels{DType::kI32, {4}, {}};
  const TensorType flat =
      TensorType{DType::kF32, {8 * 8}, {}}.with(Axis::kFsdp, split(0)).with(Axis::kCp, split(0));
  TensorType x_type = matrix(4, 8);
  TensorType weight = matrix(8, 8);
  TensorType l_type = labels;
  for (const Axis axis : {Axis::kDp, Axis::kFsdp, Axis::kCp}) {
    x_type = x_type.with(axis, split(0));
    l_type = l_type.with(axis, split(0));
    weight = weight.with(axis, replicate());
  }
  const ValueId x = g.add_source(OpKind::kInput, "x", x_type, {});
  const ValueId l = g.add_source(OpKind::kInput, "labels", l_type, {});
  const ValueId bucket = g.add_source(OpKind::kParameter, "bucket", flat, {}, 0);
  const AxisSet axes = AxisSet(Axis::kDp).with(Axis::kFsdp).with(Axis::kCp);
  const ValueId full = g.cast(bucket, axes, replicate(), "bucket.full", {});
  Attrs views;
  views.bucket = 0;
  views.view_types = {weight};
  const ValueId w = g.add_one(OpKind::kViews, {full}, "w", views, {});
  const ValueId y = g.add_one(OpKind::kLinear, {x, w}, "y", {}, {});
  const ValueId stats = g.add_one(OpKind::kCrossEntropyStats, {y, l}, "stats", {}, {});
  g.add_one(OpKind::kCrossEntropyLoss, {stats, l, y}, "loss", {}, {});

  const std::map<ValueId, ValueId> gradients = differentiate(g);
  EXPECT_EQ(g.type(gradients.at(bucket)), flat) << to_text(g);
  std::vector<std::string> casts;
  for (const Node& node : g.nodes()) {
    if (node.op != OpKind::kCast || node.tag.pass == Pass::kForward) continue;
    casts.push_back(name_of(node.attrs.axes) + " " + to_string(node.attrs.to));
  }
  EXPECT_EQ(casts, (std::vector<std::string>{"dp I", "fsdp+cp S(0)"}));
}

// y = (x w1) w2 with w1 by columns and w2 by rows: one sum in the forward, one in the backward.
TEST(Differentiate, AProductPairNeedsOneSumEachWay) {
  Graph g;
  const ValueId x = g.add_source(OpKind::kInput, "x", matrix(4, 8), {});
  TensorType flat{DType::kF32, {2 * 8 * 8}, {}};
  flat = flat.with(Axis::kTp, split(0));
  const ValueId bucket = g.add_source(OpKind::kParameter, "bucket", flat, {}, 0);
  Attrs views;
  views.bucket = 0;
  views.view_types = {matrix(8, 8).with(Axis::kTp, split(0)),
                      matrix(8, 8).with(Axis::kTp, split(1))};
  const std::vector<ValueId> w = g.add(OpKind::kViews, {bucket}, {"w1", "w2"}, views, {});
  const ValueId full = g.cast(x, Axis::kTp, replicate(), "x.full", {});
  const ValueId h = g.add_one(OpKind::kLinear, {full, w[0]}, "h", {}, {});
  const ValueId part = g.add_one(OpKind::kLinear, {h, w[1]}, "y.part", {}, {});
  const ValueId y = g.cast(part, Axis::kTp, invariant(), "y", {});
  const TensorType labels{DType::kI32, {4}, {}};
  const ValueId l = g.add_source(OpKind::kInput, "labels", labels, {});
  Attrs attrs;
  attrs.parts = 1;
  const ValueId stats = g.add_one(OpKind::kCrossEntropyStats, {y, l}, "stats", attrs, {});
  g.add_one(OpKind::kCrossEntropyLoss, {stats, l, y}, "loss", attrs, {});

  const std::map<ValueId, ValueId> gradients = differentiate(g);
  EXPECT_NO_THROW(check_graph(g, "differentiate"));
  ASSERT_TRUE(gradients.contains(bucket));
  EXPECT_EQ(g.type(gradients.at(bucket)), flat) << to_text(g);
  std::vector<std::string> casts;
  for (const Node& node : g.nodes()) {
    if (node.op != OpKind::kCast || node.tag.pass == Pass::kForward) continue;
    const CastKind kind = cast_kind(g.type(node.inputs[0]).on(Axis::kTp), node.attrs.to);
    casts.push_back(node.name + (kind == CastKind::kAllReduce ? " summed" : " free"));
  }
  EXPECT_EQ(casts, (std::vector<std::string>{"d(y.part) free", "d(x) summed"}));
}

}  // namespace
}  // namespace tessera
