#include "compile/model/moe.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/sum_chunks.h"

namespace tessera {
namespace {

// Rows that one peer's experts can get at most from `tokens` of a rank.
int64_t worst_capacity(const RunSpec& spec, int64_t tokens) {
  return tokens * std::min(spec.model.experts_per_token, spec.model.experts / spec.parallel.ep);
}

int64_t ranks_with_tokens(const Mesh& mesh) { return mesh.world() / mesh.size(Axis::kPp); }

ExpertAttrs expert_attrs(const RunSpec& spec) {
  ExpertAttrs attrs;
  attrs.dtype = spec.train.dtype;
  attrs.experts = spec.model.experts;
  attrs.per_token = spec.model.experts_per_token;
  attrs.sequences = spec.train.micro_batch * spec.parallel.replicas();
  attrs.layers = spec.model.layers;
  attrs.group = spec.train.aux_group;
  attrs.coef = spec.model.router_aux_coef;
  return attrs;
}

// Letters as in transformer.cc; k experts of a token, rows are [source, peer, capacity, width].
class MoeBuilder {
 public:
  MoeBuilder(Graph& graph, const RunSpec& spec, const Mesh& mesh, int64_t layer,
             const ServeStep* serve)
      : g_(graph),
        serve_(serve),
        at_(fmt::format("layers.{}", layer)),
        tag_{Pass::kForward, static_cast<int>(layer) + 1, -1} {
    attrs_.experts = expert_attrs(spec);
    attrs_.experts.layer = layer;
    attrs_.experts.peers = spec.parallel.ep;
    attrs_.experts.sources = ranks_with_tokens(mesh);
    attrs_.experts.capacity = serve == nullptr
                                  ? moe_capacity(spec, mesh)
                                  : worst_capacity(spec, serve->tokens / mesh.size(Axis::kTp));
  }

  MoeOutput run(ValueId x_TH, const MoeWeights& w, ValueId stats_before) {
    const bool sliced = g_.type(x_TH).on(Axis::kTp) == invariant();
    ValueId mine_TH = x_TH;
    if (sliced) mine_TH = g_.cast(x_TH, Axis::kTp, split(0), at_ + ".moe.tokens", tag_);
    const ValueId logits_TE = product(OpKind::kLinear, {mine_TH, w.router_EH}, "router");
    const auto chosen = add(OpKind::kRouter, {logits_TE}, {"gates", "choices"});
    // What balances experts in training is of no use here.
    const ValueId stats =
        serve_ == nullptr ? add_stats(logits_TE, chosen[1], stats_before) : kNoValue;
    const auto sent = add(OpKind::kDispatch, {mine_TH, chosen[1]}, {"rows", "counts", "slots"});
    const AxisSet axes = split_axes(w.gate_up_EFH);
    const ValueId rows = exchange(sent[0], axes, 1, ".rows.here");
    const ValueId counts = exchange(sent[1], axes, 1, ".counts.here");
    const ValueId out = exchange(experts(rows, counts, w), axes, 0, ".expert_down.back");
    ValueId y_TH = add(OpKind::kCombine, {out, sent[2], chosen[0]}, {"moe"}).front();
    if (sliced) y_TH = g_.cast(y_TH, Axis::kTp, invariant(), at_ + ".moe.full", tag_);
    return {y_TH, stats};
  }

 private:
  std::vector<ValueId> add(OpKind op, const std::vector<ValueId>& inputs,
                           std::vector<std::string> names) {
    for (std::string& name : names) name = at_ + "." + name;
    return g_.add(op, inputs, names, attrs_, tag_);
  }

  // A product with the weight that is its second input; in serving one of the same bits for any
  // number of tokens.
  ValueId product(OpKind op, const std::vector<ValueId>& inputs, const char* name) {
    Attrs attrs = attrs_;
    if (serve_ != nullptr) {
      op = op == OpKind::kLinear ? OpKind::kServeLinear : OpKind::kServeExpertLinear;
      attrs.dtype = attrs.experts.dtype;
      attrs.chunks = sum_chunks(g_.type(inputs[1]).shape.back(), /*shared=*/false, 1);
    }
    return g_.add_one(op, inputs, fmt::format("{}.{}", at_, name), attrs, tag_);
  }

  // The axes that split the experts: ep.
  [[nodiscard]] AxisSet split_axes(ValueId weight_E) const {
    AxisSet axes;
    for (const Axis axis : kAllAxes) {
      if (g_.type(weight_E).on(axis) == split(0)) axes = axes.with(axis);
    }
    return axes;
  }

  // All-to-all: from source (dimension 0) to peer (dimension 1), or back.
  ValueId exchange(ValueId x, AxisSet axes, int dim, const char* name) {
    return axes.empty() ? x : g_.cast(x, axes, split(dim), at_ + name, tag_);
  }

  ValueId add_stats(ValueId logits_TE, ValueId choices_Tk, ValueId before) {
    std::vector<ValueId> inputs = {logits_TE, choices_Tk};
    const bool more = before != kNoValue;
    if (more) inputs.push_back(before);
    return g_.add_one(OpKind::kRouterStats, inputs, at_ + ".router.stats", attrs_, tag_, more);
  }

  ValueId experts(ValueId rows, ValueId counts, const MoeWeights& w) {
    const ValueId gate_up =
        product(OpKind::kExpertLinear, {rows, w.gate_up_EFH, counts}, "expert_gate_up");
    const ValueId h = add(OpKind::kExpertSwiGlu, {gate_up, counts}, {"expert_swiglu"}).front();
    return product(OpKind::kExpertLinear, {h, w.down_EHF, counts}, "expert_down");
  }

  Graph& g_;
  const ServeStep* serve_;
  std::string at_;
  Tag tag_;
  Attrs attrs_;
};

}  // namespace

MoeOutput build_moe(Graph& graph, const RunSpec& spec, const Mesh& mesh, ValueId x_TH,
                    const MoeWeights& weights, int64_t layer, ValueId stats_before,
                    const ServeStep* serve) {
  return MoeBuilder(graph, spec, mesh, layer, serve).run(x_TH, weights, stats_before);
}

ValueId build_balance_loss(Graph& graph, const RunSpec& spec, ValueId stats, ValueId labels,
                           ValueId loss, Tag tag) {
  Attrs attrs;
  attrs.experts = expert_attrs(spec);
  stats = graph.cast(stats, Axis::kTp, invariant(), "router.stats", tag);
  ValueId totals =
      graph.add_one(OpKind::kBalanceTotals, {stats, labels}, "router.totals", attrs, tag);
  if (graph.type(totals).on(Axis::kCp) == partial()) {
    totals = graph.cast(totals, Axis::kCp, invariant(), "router.totals.cp", tag);
  }
  if (groups_span_replicas(spec)) {
    // The innermost axis first: rows end up in the order of the replicas.
    for (const Axis axis : {Axis::kFsdpIn, Axis::kFsdp, Axis::kDp}) {
      totals = graph.cast(totals, axis, invariant(), fmt::format("router.totals.{}", name_of(axis)),
                          tag);
    }
  }
  return graph.add_one(OpKind::kBalanceLoss, {totals, labels, loss}, "loss", attrs, tag,
                       /*accumulate=*/true);
}

int64_t tokens_of_rank(const RunSpec& spec, const Mesh& mesh) {
  return spec.train.micro_batch * spec.train.seq_len / mesh.size(Axis::kCp) / mesh.size(Axis::kTp);
}

bool groups_span_replicas(const RunSpec& spec) {
  return spec.train.micro_batch % spec.train.aux_group != 0;
}

int64_t moe_capacity(const RunSpec& spec, const Mesh& mesh) {
  const int64_t tokens = tokens_of_rank(spec, mesh);
  const int64_t peers = spec.parallel.ep;
  const int64_t worst = worst_capacity(spec, tokens);
  if (spec.parallel.moe_capacity == 0) return worst;
  const double even =
      static_cast<double>(tokens * spec.model.experts_per_token) / static_cast<double>(peers);
  return std::min(worst, static_cast<int64_t>(std::ceil(spec.parallel.moe_capacity * even)));
}

}  // namespace tessera
