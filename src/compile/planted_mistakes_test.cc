// A missing, doubled or misplaced collective does not compile, and the message names the tensor and
// the axis. First the mistakes people make, then every collective of several meshes in turn.
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/step.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

using testing::resolved;
using testing::small_spec;
using Nodes = std::vector<Node>;

void rewire(Graph& graph, ValueId from, ValueId to) {
  for (Node& node : graph.mutable_nodes())
    std::replace(node.inputs.begin(), node.inputs.end(), from, to);
}

// The cast that gives `name` on `axis`; the first one when there are several.
size_t find_cast(const Graph& graph, const std::string& name, Axis axis) {
  const Nodes& nodes = graph.nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].op == OpKind::kCast && nodes[i].name == name &&
        nodes[i].attrs.axes.contains(axis)) {
      return i;
    }
  }
  throw std::runtime_error("no cast " + name);
}

void remove_cast(Graph& graph, size_t at) {
  const Node cast = graph.nodes()[at];
  graph.mutable_nodes().erase(graph.mutable_nodes().begin() + static_cast<std::ptrdiff_t>(at));
  rewire(graph, cast.outputs[0], cast.inputs[0]);
}

// The same cast again, of its own result.
void double_cast(Graph& graph, size_t at) {
  Node again = graph.nodes()[at];
  const ValueId once = again.outputs[0];
  const ValueId twice = graph.new_value(graph.value(once).name, graph.type(once));
  rewire(graph, once, twice);
  again.inputs = {once};
  again.outputs = {twice};
  graph.mutable_nodes().insert(graph.mutable_nodes().begin() + static_cast<std::ptrdiff_t>(at) + 1,
                               again);
}

// Casts `axes` to `to` instead; the new result has the type that this cast gives.
void retarget_cast(Graph& graph, size_t at, AxisSet axes, Placement to) {
  Node& cast = graph.mutable_nodes()[at];
  cast.attrs.axes = axes;
  cast.attrs.to = to;
  const ValueId old = cast.outputs[0];
  const TensorType type = infer_types(graph, cast).front();
  const ValueId fresh = graph.new_value(graph.value(old).name, type);
  graph.mutable_nodes()[at].outputs = {fresh};
  rewire(graph, old, fresh);
}

using Mistake = std::function<void(Graph& graph)>;

std::string message_of(const RunSpec& spec, const std::string& pass, const Mistake& plant) {
  bool planted = false;
  try {
    build_step(spec, StepKind::kTraining, [&](const std::string& at, Graph& graph) {
      if (at != pass) return;
      planted = true;
      plant(graph);
    });
  } catch (const TypeError& e) {
    return e.what();
  }
  EXPECT_TRUE(planted) << "no pass " << pass;
  return "";
}

void expect_error(const RunSpec& spec, const std::string& pass, const Mistake& plant,
                  const std::string& tensor, const std::string& axis) {
  const std::string message = message_of(spec, pass, plant);
  EXPECT_NE(message, "") << "compiled";
  EXPECT_NE(message.find("'" + tensor + "'"), std::string::npos) << tensor << " in: " << message;
  EXPECT_NE(message.find(axis), std::string::npos) << axis << " in: " << message;
}

RunSpec sequence_parallel() {
  return resolved(small_spec("dp=2,tp=2,zero=1,sequence_parallel=true"));
}
RunSpec tensor_parallel() { return resolved(small_spec("dp=2,tp=2")); }

TEST(MissingCollective, ReduceScatterAfterTheOutputProjection) {
  expect_error(
      sequence_parallel(), "build_transformer",
      [](Graph& g) { remove_cast(g, find_cast(g, "layers.0.o.sum", Axis::kTp)); }, "layers.0.o",
      "tp");
}

TEST(MissingCollective, AllGatherBeforeTheQueryProjection) {
  expect_error(
      sequence_parallel(), "build_transformer",
      [](Graph& g) { remove_cast(g, find_cast(g, "layers.1.attn_norm.full", Axis::kTp)); },
      "layers.1.attn_norm", "axis tp");
}

TEST(MissingCollective, SumOfTheEmbedding) {
  for (const RunSpec& spec : {sequence_parallel(), tensor_parallel()}) {
    expect_error(
        spec, "build_transformer",
        [](Graph& g) { remove_cast(g, find_cast(g, "embed.sum", Axis::kTp)); }, "embed", "axis tp");
  }
}

TEST(MissingCollective, StatisticsOfTheSplitVocabulary) {
  expect_error(
      tensor_parallel(), "build_transformer",
      [](Graph& g) { remove_cast(g, find_cast(g, "loss.stats.0.full", Axis::kTp)); },
      "loss.stats.0", "axis tp");
}

TEST(MissingCollective, InputGradientOfTheColumnSplitProducts) {
  expect_error(
      tensor_parallel(), "differentiate",
      [](Graph& g) { remove_cast(g, find_cast(g, "d(layers.0.mlp_norm)", Axis::kTp)); },
      "d(layers.0.mlp_norm.full)", "axis tp");
}

TEST(MissingCollective, GradientSumOfABucketOverReplicas) {
  expect_error(
      tensor_parallel(), "add_update",
      [](Graph& g) { remove_cast(g, find_cast(g, "d(layers.0.matrices)", Axis::kDp)); },
      "d(layers.0.matrices.full)", "axis dp");
  expect_error(
      resolved(small_spec("fsdp=2")), "add_update",
      [](Graph& g) { remove_cast(g, find_cast(g, "d(layers.1.norms.full)", Axis::kFsdp)); },
      "d(layers.1.norms.full)", "fsdp:P");
}

TEST(MissingCollective, SumOfTheMetrics) {
  expect_error(
      tensor_parallel(), "add_update",
      [](Graph& g) { remove_cast(g, find_cast(g, "metrics", Axis::kDp)); }, "metrics.own", "axis ");
}

// The norm sees the right gradient, the optimizer the one before the sum.
TEST(MissingCollective, PartialGradientReachesTheOptimizer) {
  expect_error(
      tensor_parallel(), "add_update",
      [](Graph& g) {
        const Node sum = g.nodes()[find_cast(g, "d(layers.1.matrices)", Axis::kDp)];
        for (Node& node : g.mutable_nodes()) {
          if (node.op != OpKind::kAdamW) continue;
          std::replace(node.inputs.begin(), node.inputs.end(), sum.outputs[0], sum.inputs[0]);
        }
      },
      "d(layers.1.matrices.full)", "is still a partial sum (P) on axis dp");
}

TEST(DoubledCollective, ReduceScatterAllGatherAndGradientSum) {
  expect_error(
      sequence_parallel(), "build_transformer",
      [](Graph& g) { double_cast(g, find_cast(g, "layers.0.down.sum", Axis::kTp)); },
      "layers.0.down.sum", "axis tp");
  expect_error(
      sequence_parallel(), "build_transformer",
      [](Graph& g) { double_cast(g, find_cast(g, "layers.0.mlp_norm.full", Axis::kTp)); },
      "layers.0.mlp_norm.full", "axis tp");
  expect_error(
      tensor_parallel(), "add_update",
      [](Graph& g) { double_cast(g, find_cast(g, "d(embed.matrices)", Axis::kDp)); },
      "d(embed.matrices)", "axis dp");
}

TEST(MisplacedCollective, ReplicatedInsteadOfInvariant) {
  expect_error(
      tensor_parallel(), "build_transformer",
      [](Graph& g) {
        retarget_cast(g, find_cast(g, "layers.0.o.sum", Axis::kTp), Axis::kTp, replicate());
      },
      "layers.0.o.sum", "axis tp");
}

TEST(MisplacedCollective, ScatteredAlongTheWrongDimension) {
  expect_error(
      sequence_parallel(), "build_transformer",
      [](Graph& g) {
        retarget_cast(g, find_cast(g, "layers.0.o.sum", Axis::kTp), Axis::kTp, split(1));
      },
      "layers.0.o.sum", "axis tp");
}

TEST(MisplacedCollective, GatheredOverTheWrongAxis) {
  expect_error(
      sequence_parallel(), "build_transformer",
      [](Graph& g) {
        retarget_cast(g, find_cast(g, "layers.0.attn_norm.full", Axis::kTp), Axis::kDp,
                      replicate());
      },
      "layers.0.attn_norm.full", "axis tp");
}

// The gather stands before the norm instead of behind it.
TEST(MisplacedCollective, GatheredOneTensorTooEarly) {
  expect_error(
      sequence_parallel(), "build_transformer",
      [](Graph& g) {
        remove_cast(g, find_cast(g, "layers.0.attn_norm.full", Axis::kTp));
        const ValueId x = g.nodes()[find_cast(g, "embed.sum", Axis::kTp)].outputs[0];
        const ValueId full = g.cast(x, Axis::kTp, replicate(), "embed.sum.full", {});
        Node gather = g.nodes().back();
        g.mutable_nodes().pop_back();
        for (size_t i = 0; i < g.nodes().size(); ++i) {
          if (g.nodes()[i].op != OpKind::kRmsNorm) continue;
          g.mutable_nodes()[i].inputs[0] = full;
          g.mutable_nodes().insert(g.mutable_nodes().begin() + static_cast<std::ptrdiff_t>(i),
                                   gather);
          break;
        }
      },
      "embed.sum.full", "axis tp");
}

// ---- every collective in turn ----

class EveryCast : public ::testing::TestWithParam<const char*> {
 protected:
  static RunSpec spec() {
    RunSpec spec = small_spec(GetParam());
    spec.model.layers = 1;
    spec.train.loss_chunk = 4;
    return resolved(spec);
  }
  // The graph with the update, before any pass moves nodes.
  static Graph graph_with_update() {
    Graph graph;
    build_step(spec(), StepKind::kTraining, [&](const std::string& pass, const Graph& now) {
      if (pass == "add_update") graph = now;
    });
    return graph;
  }

  // Plants a mistake in every cast; each must be refused with a message that names a tensor of the
  // cast and one of its axes.
  static void expect_refused(const std::function<bool(Graph&, size_t)>& plant) {
    const Graph good = graph_with_update();
    size_t planted = 0;
    for (size_t at = 0; at < good.nodes().size(); ++at) {
      const Node& cast = good.nodes()[at];
      Graph graph = good;
      std::string message;
      try {
        if (cast.op != OpKind::kCast || !plant(graph, at)) continue;
        check_graph(graph, "add_update");
      } catch (const TypeError& e) {
        message = e.what();
      }
      ++planted;
      EXPECT_NE(message, "") << cast.name << " was accepted";
      expect_names(message, good.value(cast.inputs[0]).name, cast);
    }
    EXPECT_GT(planted, 10U);
  }

  static void expect_names(const std::string& message, const std::string& input, const Node& cast) {
    EXPECT_TRUE(message.find("'" + input + "'") != std::string::npos ||
                message.find("'" + cast.name + "'") != std::string::npos)
        << cast.name << " is not in: " << message;
    bool named = false;
    for (const Axis axis : kAllAxes) {
      const std::string name(name_of(axis));
      named = named || (cast.attrs.axes.contains(axis) &&
                        (message.find("axis " + name) != std::string::npos ||
                         message.find(name + ":") != std::string::npos));
    }
    EXPECT_TRUE(named) << name_of(cast.attrs.axes) << " is not in: " << message;
  }
};

TEST_P(EveryCast, MissingIsRefused) {
  expect_refused([](Graph& graph, size_t at) {
    remove_cast(graph, at);
    return true;
  });
}

TEST_P(EveryCast, DoubledIsRefused) {
  expect_refused([](Graph& graph, size_t at) {
    double_cast(graph, at);
    return true;
  });
}

TEST_P(EveryCast, AnyOtherTargetIsRefused) {
  for (const Placement to : {invariant(), replicate(), split(0), split(1)}) {
    SCOPED_TRACE(to_string(to));
    expect_refused([&](Graph& graph, size_t at) {
      const Node cast = graph.nodes()[at];
      if (cast.attrs.to == to) return false;
      retarget_cast(graph, at, cast.attrs.axes, to);
      return true;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, EveryCast,
                         ::testing::Values("dp=2,tp=2", "dp=2,tp=2,zero=1,sequence_parallel=true",
                                           "dp=2,fsdp=2,tp=2", "tp=4,zero=0"));

}  // namespace
}  // namespace tessera
