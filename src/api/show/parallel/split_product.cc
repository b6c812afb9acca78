#include "api/show/parallel/split_product.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/philox.h"
#include "base/steady_exp.h"
#include "graph/differentiate.h"

namespace tessera {
namespace {

// Small whole numbers, so that sums can be followed by eye.
SmallMatrix small_numbers(int64_t rows, int64_t cols, uint64_t seed) {
  SmallMatrix matrix{rows, cols, {}};
  constexpr double kChoices = 5;  // -2 to 2
  for (int64_t i = 0; i < rows * cols; ++i) {
    const double chosen = std::floor(kChoices * uniform_at(seed, 0, static_cast<uint64_t>(i)));
    matrix.values.push_back(chosen - 2);
  }
  return matrix;
}

SmallMatrix transposed(const SmallMatrix& matrix) {
  SmallMatrix result{matrix.cols, matrix.rows, {}};
  for (int64_t c = 0; c < matrix.cols; ++c) {
    for (int64_t r = 0; r < matrix.rows; ++r) result.values.push_back(matrix.at(r, c));
  }
  return result;
}

SmallMatrix window(const SmallMatrix& matrix, int64_t first_row, int64_t rows, int64_t first_col,
                   int64_t cols) {
  SmallMatrix result{rows, cols, {}};
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      result.values.push_back(matrix.at(first_row + r, first_col + c));
    }
  }
  return result;
}

// x w^T, as the op "linear" has it.
SmallMatrix linear(const SmallMatrix& x, const SmallMatrix& w) {
  SmallMatrix y{x.rows, w.rows, {}};
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < w.rows; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < x.cols; ++i) sum += x.at(r, i) * w.at(c, i);
      y.values.push_back(sum);
    }
  }
  return y;
}

// GELU in its tanh form: x (1 + tanh(u)) / 2 is x / (1 + e^-2u).
SmallMatrix gelu(SmallMatrix x) {
  constexpr double kScale = 0.7978845608028654, kCubic = 0.044715;
  for (double& v : x.values) {
    const double u = kScale * (v + kCubic * v * v * v);
    v = v / (1 + steady_exp(-2 * u));
  }
  return x;
}

// Every token looks at itself and at those before it. Keys and values of a head lie beside each
// other.
SmallMatrix attention(const SmallMatrix& q, const SmallMatrix& kv, int64_t head_dim) {
  SmallMatrix out{q.rows, q.cols, std::vector<double>(q.values.size(), 0)};
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  for (int64_t head = 0; head < q.cols / head_dim; ++head) {
    const int64_t queries = head * head_dim, keys = 2 * head * head_dim, vals = keys + head_dim;
    for (int64_t row = 0; row < q.rows; ++row) {
      double total = 0;
      for (int64_t other = 0; other <= row; ++other) {
        double score = 0;
        for (int64_t i = 0; i < head_dim; ++i) {
          score += q.at(row, queries + i) * kv.at(other, keys + i);
        }
        const double weight = steady_exp(score * scale);
        total += weight;
        for (int64_t i = 0; i < head_dim; ++i) {
          out.values[static_cast<size_t>(row * out.cols + queries + i)] +=
              weight * kv.at(other, vals + i);
        }
      }
      for (int64_t i = 0; i < head_dim; ++i) {
        out.values[static_cast<size_t>(row * out.cols + queries + i)] /= total;
      }
    }
  }
  return out;
}

SmallMatrix sum_of(const std::vector<SmallMatrix>& parts) {
  SmallMatrix sum = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) {
    for (size_t j = 0; j < sum.values.size(); ++j) sum.values[j] += parts[i].values[j];
  }
  return sum;
}

// The graph of a product, with the numbers of its sources.
class ProductGraph {
 public:
  explicit ProductGraph(const ProductRequest& request) : request_(request) { build(); }

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] ValueId named(std::string_view name) const {
    for (size_t id = 0; id < graph_.num_values(); ++id) {
      if (graph_.value(static_cast<ValueId>(id)).name == name) return static_cast<ValueId>(id);
    }
    return kNoValue;
  }
  [[nodiscard]] ValueId result() const { return result_; }

  // By value and rank.
  [[nodiscard]] std::vector<std::vector<SmallMatrix>> evaluate(int64_t ranks) const {
    std::vector<std::vector<SmallMatrix>> local(graph_.num_values());
    for (const Node& node : graph_.nodes()) {
      std::vector<SmallMatrix>& out = local[static_cast<size_t>(node.outputs[0])];
      if (node.op == OpKind::kCast) {
        out = cast(node, local[static_cast<size_t>(node.inputs[0])]);
        continue;
      }
      for (int64_t rank = 0; rank < ranks; ++rank) out.push_back(compute(node, local, rank, ranks));
    }
    return local;
  }

  [[nodiscard]] std::vector<ProductCast> casts(bool forward) const {
    Graph graph = graph_;
    if (!forward) {
      TensorType type = graph.type(result_);
      for (Placement& placement : type.placements) placement = dual(placement);
      differentiate_from(graph, result_, graph.add_source(OpKind::kInput, "dy", type, {}));
    }
    std::vector<ProductCast> found;
    for (const Node& node : graph.nodes()) {
      const bool is_forward = node.tag.pass == Pass::kForward;
      if (node.op != OpKind::kCast || is_forward != forward) continue;
      const Value& from = graph.value(node.inputs[0]);
      const CastKind kind = cast_kind(from.type.on(Axis::kTp), node.attrs.to);
      if (kind == CastKind::kNothing || kind == CastKind::kSlice) continue;
      found.push_back({kind, from.name, numel(from.type.shape)});
    }
    return found;
  }

 private:
  ValueId source(const std::string& name, SmallMatrix whole, Placement placement) {
    const TensorType type{DType::kF64, {whole.rows, whole.cols}, {}};
    const ValueId id = graph_.add_source(OpKind::kInput, name, type.with(Axis::kTp, placement), {});
    sources_[id] = std::move(whole);
    return id;
  }
  // B as it is stored: its columns are rows.
  ValueId weight(const std::string& name, const SmallMatrix& whole, Placement placement) {
    return source(name, transposed(whole), placement);
  }

  // Partial sums are nobody's result: whoever has them needs a cast.
  void finish(ValueId last) {
    const bool partial = graph_.type(last).on(Axis::kTp).kind == Placement::Kind::kPartial;
    result_ = partial ? graph_.cast(last, Axis::kTp, invariant(), "result", {}) : last;
  }

  void build() {
    const auto& [split_kind, ranks, m, k, n, heads] = request_;
    const SmallMatrix a = small_numbers(m, k, 1), b = small_numbers(k, n, 2);
    if (split_kind == ProductSplit::kRow) {
      const ValueId x = source("a", a, split(1));
      const ValueId w = weight("b", b, split(1));
      return finish(graph_.add_one(OpKind::kLinear, {x, w}, "part", {}, {}));
    }
    const ValueId x = source("a", a, invariant());
    const ValueId everywhere = graph_.cast(x, Axis::kTp, replicate(), "a.everywhere", {});
    const ValueId w = weight("b", b, split(0));
    if (split_kind == ProductSplit::kColumn) {
      return finish(graph_.add_one(OpKind::kLinear, {everywhere, w}, "result", {}, {}));
    }
    const ValueId h =
        graph_.add_one(OpKind::kLinear, {everywhere, w},
                       split_kind == ProductSplit::kPair ? "before" : "queries", {}, {});
    const ValueId hidden = split_kind == ProductSplit::kPair
                               ? graph_.add_one(OpKind::kGelu, {h}, "hidden", {}, {})
                               : attend(everywhere, h);
    const ValueId w2 = weight("b2", small_numbers(n, k, 3), split(1));
    finish(graph_.add_one(OpKind::kLinear, {hidden, w2}, "part", {}, {}));
  }

  ValueId attend(ValueId x, ValueId queries) {
    const ValueId w = weight("b_kv", small_numbers(request_.k, 2 * request_.n, 4), split(0));
    const ValueId kv = graph_.add_one(OpKind::kLinear, {x, w}, "keys and values", {}, {});
    Attrs attrs;
    attrs.heads = attrs.kv_heads = request_.heads;
    attrs.head_dim = request_.n / request_.heads;
    attrs.seq_len = request_.m;
    return graph_.add(OpKind::kAttention, {queries, kv}, {"hidden", "lse"}, attrs, {}).front();
  }

  [[nodiscard]] SmallMatrix compute(const Node& node,
                                    const std::vector<std::vector<SmallMatrix>>& local,
                                    int64_t rank, int64_t ranks) const {
    const auto in = [&](size_t i) -> const SmallMatrix& {
      return local[static_cast<size_t>(node.inputs[i])][static_cast<size_t>(rank)];
    };
    switch (node.op) {
      case OpKind::kInput:
        return part_of_source(node.outputs[0], rank, ranks);
      case OpKind::kLinear:
        return linear(in(0), in(1));
      case OpKind::kGelu:
        return gelu(in(0));
      case OpKind::kAttention:
        return attention(in(0), in(1), node.attrs.head_dim);
      default:
        TESSERA_CHECK(false, "no numbers for {}", name_of(node.op));
    }
    return {};
  }

  [[nodiscard]] SmallMatrix part_of_source(ValueId id, int64_t rank, int64_t ranks) const {
    const SmallMatrix& whole = sources_.at(id);
    const Placement placement = graph_.type(id).on(Axis::kTp);
    if (placement.kind != Placement::Kind::kSplit) return whole;
    const bool by_rows = placement.dim == 0;
    const int64_t rows = by_rows ? whole.rows / ranks : whole.rows;
    const int64_t cols = by_rows ? whole.cols : whole.cols / ranks;
    return window(whole, by_rows ? rank * rows : 0, rows, by_rows ? 0 : rank * cols, cols);
  }

  [[nodiscard]] std::vector<SmallMatrix> cast(const Node& node,
                                              const std::vector<SmallMatrix>& from) const {
    const Placement before = graph_.type(node.inputs[0]).on(Axis::kTp);
    switch (cast_kind(before, node.attrs.to)) {
      case CastKind::kNothing:
        return from;
      case CastKind::kAllReduce:
        return std::vector<SmallMatrix>(from.size(), sum_of(from));
      default:
        TESSERA_CHECK(false, "no numbers for the cast {}", node.name);
    }
    return {};
  }

  const ProductRequest& request_;
  Graph graph_;
  std::map<ValueId, SmallMatrix> sources_;
  ValueId result_ = kNoValue;
};

void require_divides(int64_t number, int ranks, std::string_view what) {
  require_config(number % ranks == 0,
                 "tp_matmul: {} is {}, which {} ranks cannot share evenly; use {} or {}", what,
                 number, ranks, std::max<int64_t>(number / ranks, 1) * ranks,
                 (number / ranks + 1) * ranks);
}

void check_product(const ProductRequest& request) {
  if (request.split == ProductSplit::kRow) {
    require_divides(request.k, request.ranks, "k");
  } else if (request.split != ProductSplit::kHeads) {
    require_divides(request.n, request.ranks, "n");
  } else {
    require_divides(request.heads, request.ranks, "heads");
    require_config(request.n % request.heads == 0,
                   "tp_matmul: n is {}, which {} heads cannot share evenly; use n = {}", request.n,
                   request.heads, (request.n / request.heads + 1) * request.heads);
  }
}

// Weights are stored the other way round: what is split by rows there is split by columns here.
HeldMatrix held(const ProductGraph& product, std::string_view name,
                const std::vector<std::vector<SmallMatrix>>& split_values,
                const std::vector<std::vector<SmallMatrix>>& whole_values) {
  const ValueId id = product.named(name);
  const auto index = static_cast<size_t>(id);
  const bool is_weight = name.starts_with('b');
  HeldMatrix matrix{.name = std::string(name), .type = product.graph().type(id)};
  const auto as_shown = [&](const SmallMatrix& m) { return is_weight ? transposed(m) : m; };
  matrix.whole = as_shown(whole_values[index].front());
  const Placement placement = matrix.type.on(Axis::kTp);
  matrix.partial = placement.kind == Placement::Kind::kPartial;
  const bool splits = placement.kind == Placement::Kind::kSplit;
  const bool by_rows = splits && (placement.dim == 0) != is_weight;
  for (size_t rank = 0; rank < split_values[index].size(); ++rank) {
    HeldMatrix::Part part{.values = as_shown(split_values[index][rank])};
    const auto number = static_cast<int64_t>(rank);
    part.first_row = by_rows ? number * part.values.rows : 0;
    part.first_col = splits && !by_rows ? number * part.values.cols : 0;
    part.end_row = part.first_row + part.values.rows;
    part.end_col = part.first_col + part.values.cols;
    matrix.parts.push_back(std::move(part));
  }
  return matrix;
}

}  // namespace

const HeldMatrix& SplitProductResult::matrix(std::string_view name) const {
  const auto found = std::find_if(matrices.begin(), matrices.end(),
                                  [&](const HeldMatrix& one) { return one.name == name; });
  TESSERA_CHECK(found != matrices.end(), "no matrix is called {}", name);
  return *found;
}

SplitProductResult split_product(const ProductRequest& request) {
  check_product(request);
  const ProductGraph product(request);
  const auto split_values = product.evaluate(request.ranks);
  const auto whole_values = product.evaluate(1);
  SplitProductResult result;
  for (const std::string_view name : {"a", "b", "b_kv", "hidden", "b2", "part", "result"}) {
    if (product.named(name) == kNoValue) continue;
    result.matrices.push_back(held(product, name, split_values, whole_values));
  }
  result.unsplit = whole_values[static_cast<size_t>(product.result())].front();
  result.forward = product.casts(/*forward=*/true);
  result.backward = product.casts(/*forward=*/false);
  return result;
}

}  // namespace tessera
