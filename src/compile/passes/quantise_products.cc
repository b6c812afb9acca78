#include "compile/passes/quantise_products.h"

#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"
#include "compile/passes/rewrite.h"

namespace tessera {
namespace {

// What a product multiplies: which inputs, and along which of their dimensions it sums.
struct ProductOfCodes {
  OpKind op;
  std::array<Factor, 2> factors;
  std::array<int, 2> summed;
};

const ProductOfCodes* in_codes(OpKind op) {
  static constexpr ProductOfCodes kForward{
      OpKind::kFp8Linear, {Factor::kActivation, Factor::kWeight}, {1, 1}};
  static constexpr ProductOfCodes kInput{
      OpKind::kFp8LinearDx, {Factor::kGradient, Factor::kWeight}, {1, 0}};
  static constexpr ProductOfCodes kWeights{
      OpKind::kFp8LinearDw, {Factor::kGradient, Factor::kActivation}, {0, 0}};
  if (op == OpKind::kLinear) return &kForward;
  if (op == OpKind::kLinearDx) return &kInput;
  return op == OpKind::kLinearDw ? &kWeights : nullptr;
}

class Quantiser {
 public:
  Quantiser(Graph& graph, const RunSpec& spec, const Mesh& mesh)
      : graph_(graph), spec_(spec), mesh_(mesh) {}

  void run() {
    std::vector<Node> nodes = std::move(graph_.mutable_nodes());
    graph_.mutable_nodes().clear();
    for (Node& node : nodes) {
      const ProductOfCodes* product = in_codes(node.op);
      if (product != nullptr && in_quantised_block(node)) rewrite(node, *product);
      graph_.mutable_nodes().push_back(std::move(node));
    }
    check_graph(graph_, "quantise_products");
  }

 private:
  [[nodiscard]] bool in_quantised_block(const Node& node) const {
    const int64_t block = node.tag.unit - 1;
    return block >= spec_.train.fp8.bf16_first &&
           block < spec_.model.layers - spec_.train.fp8.bf16_last;
  }

  void rewrite(Node& node, const ProductOfCodes& product) {
    // Codes of a backward pass are of its input gradients: schedules may put weight gradients off,
    // but not what communicates for them.
    const Tag tag{is_backward(node) ? Pass::kInputGrad : node.tag.pass, node.tag.unit, -1};
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < 2; ++i) {
      const Scaling scaling = scaling_of(spec_.train.fp8, product.factors[i], product.summed[i]);
      node.attrs.scaling[i] = scaling;
      const Codes& codes = codes_of(node.inputs[i], scaling, tag);
      inputs.insert(inputs.end(), {codes.codes, codes.amax});
    }
    inputs.insert(inputs.end(), node.inputs.begin() + 2, node.inputs.end());
    node.inputs = std::move(inputs);
    node.op = product.op;
    node.attrs.dtype = spec_.train.dtype;
  }

  struct Codes {
    ValueId codes = kNoValue, amax = kNoValue;
  };

  // Weights are gathered again for the backward pass, and activations computed again: it makes
  // codes of its own.
  const Codes& codes_of(ValueId x, const Scaling& scaling, Tag tag) {
    const auto [found, fresh] = known_.try_emplace({x, scaling, tag.pass});
    if (!fresh) return found->second;
    const std::string name = fmt::format("{}.{}{}", graph_.value(x).name, name_of(scaling.format),
                                         tag.pass == Pass::kForward ? "" : ".b");
    Attrs attrs;
    attrs.scaling[0] = scaling;
    attrs.scales = scales_of(graph_.type(x), scaling);
    ValueId amax = graph_.add_one(OpKind::kAmax, {x}, name + ".amax", attrs, tag);
    AxisSet shared;
    for (const Axis axis : kAllAxes) {
      if (graph_.type(amax).on(axis) == maximum()) shared = shared.with(axis);
    }
    if (!shared.empty()) amax = graph_.cast(amax, shared, invariant(), name + ".amax.all", tag);
    attrs.scales.clear();
    found->second = {graph_.add_one(OpKind::kQuantise, {x, amax}, name, attrs, tag), amax};
    return found->second;
  }

  // Ranks that a dimension is split over; `samples`: only those with other samples.
  [[nodiscard]] int64_t parts(const TensorType& x, int dim, bool samples) const {
    AxisSet axes;
    for (const Axis axis : kAllAxes) {
      if (x.on(axis) == split(dim) && (!samples || sample_axes().contains(axis))) {
        axes = axes.with(axis);
      }
    }
    return mesh_.size(axes);
  }

  // How many tiles a matrix has, on all ranks: replicas do not share any.
  [[nodiscard]] Shape scales_of(const TensorType& x, const Scaling& scaling) const {
    const int64_t down = parts(x, 0, /*samples=*/scaling.rows == 0);
    const int64_t across = scaling.cols == 0 ? 1 : parts(x, 1, /*samples=*/false);
    return {down * scaling.row_tiles(x.shape[0] / parts(x, 0, /*samples=*/false)),
            across * scaling.col_tiles(x.shape[1] / parts(x, 1, /*samples=*/false))};
  }

  Graph& graph_;
  const RunSpec& spec_;
  const Mesh& mesh_;
  std::map<std::tuple<ValueId, Scaling, Pass>, Codes> known_;
};

}  // namespace

Scaling scaling_of(const Fp8Spec& fp8, Factor factor, int summed) {
  Scaling scaling;
  switch (fp8.recipe) {
    case Fp8Recipe::kNone:
      TESSERA_CHECK(false, "no recipe to scale by");
      break;
    case Fp8Recipe::kTensor:
      if (factor == Factor::kGradient) scaling.format = Float8::kE5M2;
      break;
    case Fp8Recipe::kRow:
      (summed == 1 ? scaling.rows : scaling.cols) = 1;
      break;
    case Fp8Recipe::kBlock:
      scaling.rows = factor == Factor::kWeight || summed == 0 ? fp8.block : 1;
      scaling.cols = factor == Factor::kWeight || summed == 1 ? fp8.block : 1;
      break;
  }
  return scaling;
}

void quantise_products(Graph& graph, const RunSpec& spec, const Mesh& mesh) {
  Quantiser(graph, spec, mesh).run();
}

}  // namespace tessera
