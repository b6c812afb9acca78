#include "compile/model/transformer.h"

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "base/sum_chunks.h"
#include "compile/model/loss_chunks.h"
#include "compile/model/moe.h"

namespace tessera {
namespace {

// Letters: T tokens of all replicas, H width, Q = heads * head_dim, E = kv_heads * head_dim,
// F = ffn, V = padded vocabulary. The residual stream is x_TH: S(0) on dp, fsdp and cp, and on tp
// S(0) with sequence parallelism, else I.
class TransformerBuilder {
 public:
  TransformerBuilder(const RunSpec& spec, const Mesh& mesh, const ParameterLayout& layout)
      : model_(spec.model), spec_(spec), mesh_(mesh), layout_(layout), g_(out_.graph) {}

  ForwardGraph run(bool training, int64_t most_chunks);
  ForwardGraph serve(const ServeStep& shape, const std::vector<int>& stage_of_unit);

 private:
  void add_inputs(bool training);
  [[nodiscard]] TensorType integers(const Shape& shape) const;
  void add_storage();
  void add_serve_inputs();
  void add_caches();
  void open_unit(int unit);
  ValueId blocks(ValueId x_TH);
  [[nodiscard]] ValueId weight(const std::string& name) const { return weights_.at(name); }

  ValueId embedding();
  ValueId heads(ValueId full_TH, const std::string& at, int64_t heads,
                const std::string& norm_name);
  ValueId attention(ValueId x_TH, const std::string& at);
  ValueId attended(ValueId q_TQ, ValueId kv_TE, const std::string& at);
  ValueId attended_pages(ValueId q_TQ, ValueId kv_TE, const std::string& at);
  [[nodiscard]] Attrs attention_attrs() const;
  [[nodiscard]] const ServeInputs& serve_inputs() const;
  std::pair<ValueId, ValueId> enter_cp(ValueId q_TQ, ValueId kv_TE, const std::string& at);
  ValueId leave_cp(ValueId o_TQ, const std::string& at);
  ValueId mlp(ValueId x_TH, const std::string& at);
  ValueId moe(ValueId x_TH, int64_t layer);
  void loss(ValueId x_TH, ValueId table_VH);

  // ---- ops with the current tag ----
  ValueId linear(ValueId x, ValueId w, const std::string& name) {
    if (serve_ != nullptr) return serve_linear(x, w, name);
    return g_.add_one(OpKind::kLinear, {x, w}, name, {}, tag_);
  }
  // Partial sums of several ranks leave it in the accumulate type: they are rounded once, together.
  ValueId serve_linear(ValueId x, ValueId w, const std::string& name) {
    const int64_t tp = mesh_.size(Axis::kTp);
    const bool shared = g_.type(w).on(Axis::kTp) == split(1);
    Attrs attrs;
    attrs.dtype = shared && tp > 1 ? accumulate_type(spec_.train.dtype) : spec_.train.dtype;
    attrs.chunks = sum_chunks(g_.type(w).shape[1], shared, tp);
    return g_.add_one(OpKind::kServeLinear, {x, w}, name, attrs, tag_);
  }
  ValueId norm(ValueId x, const std::string& name) {
    Attrs attrs;
    attrs.eps = model_.norm_eps;
    if (model_.norm == NormKind::kLayer) {
      return g_
          .add(OpKind::kLayerNorm, {x, weight(name), weight(name + ".bias")},
               {name, name + ".stats"}, attrs, tag_)
          .front();
    }
    return g_.add(OpKind::kRmsNorm, {x, weight(name)}, {name, name + ".rstd"}, attrs, tag_).front();
  }
  ValueId add_bias(ValueId x, const std::string& name) {
    return g_.add_one(OpKind::kAddBias, {x, weight(name + ".bias")}, name + ".biased", {}, tag_);
  }
  ValueId drop(ValueId x, DropoutSite site, const std::string& name) {
    if (!training_ || model_.dropout == 0) return x;
    Attrs attrs;
    attrs.dropout = model_.dropout;
    attrs.site = site;
    attrs.seq_len = spec_.train.seq_len;
    return g_.add_one(OpKind::kDropout, {x}, name, attrs, tag_);
  }
  // Into the part of a block where tp ranks hold different columns: all-gather, or nothing.
  ValueId enter_tp(ValueId x_TH, const std::string& name) {
    return g_.cast(x_TH, Axis::kTp, replicate(), name, tag_);
  }
  // Out of it again: reduce-scatter along the tokens, or all-reduce.
  ValueId leave_tp(ValueId partial_TH, const std::string& name) {
    const ValueId sum =
        g_.cast(partial_TH, Axis::kTp, sequence_parallel_ ? split(0) : invariant(), name, tag_);
    if (g_.type(sum).dtype == spec_.train.dtype) return sum;
    Attrs attrs;
    attrs.dtype = spec_.train.dtype;
    return g_.add_one(OpKind::kConvert, {sum}, name + ".rounded", attrs, tag_);
  }

  const ModelSpec& model_;
  const RunSpec& spec_;
  const Mesh& mesh_;
  const ParameterLayout& layout_;
  bool sequence_parallel_ = false;
  bool training_ = false;
  const ServeStep* serve_ = nullptr;
  const std::vector<int>* stage_of_unit_ = nullptr;  // serving
  int64_t most_chunks_ = 0;                          // of the loss; 0: all
  ForwardGraph out_;
  Graph& g_;
  Tag tag_;
  std::map<std::string, ValueId> weights_;
  ValueId router_stats_ = kNoValue;  // of the layers so far
};

TensorType TransformerBuilder::integers(const Shape& shape) const {
  TensorType type{DType::kI32, shape, {}};
  for (const Axis axis : kAllAxes) {
    if (is_data_axis(axis)) type.placements[index_of(axis)] = split(0);
  }
  type.placements[index_of(Axis::kTp)] = replicate();
  return type;
}

void TransformerBuilder::add_inputs(bool training) {
  const int64_t tokens = spec_.train.micro_batch * spec_.train.seq_len * spec_.parallel.replicas();
  const TensorType type = integers({tokens});
  out_.tokens = g_.add_source(OpKind::kInput, "tokens", type, tag_);
  if (training) {
    out_.labels =
        g_.add_source(OpKind::kInput, "labels", type, {Pass::kForward, layout_.num_units - 1, -1});
  }
  add_storage();
}

void TransformerBuilder::add_storage() {
  const bool sharded = spec_.parallel.zero >= 1;
  for (size_t b = 0; b < layout_.buckets.size(); ++b) {
    const Bucket& bucket = layout_.buckets[b];
    TensorType storage{spec_.train.dtype, {bucket.numel}, {}};
    AxisSet axes = layout_.split_axes_of(bucket);
    storage.shape[0] *= mesh_.size(axes);
    if (sharded) axes = axes.with(layout_.shard_axes_of(bucket));
    for (const Axis axis : kAllAxes) {
      if (axes.contains(axis)) storage.placements[index_of(axis)] = split(0);
    }
    out_.bucket_storage.push_back(g_.add_source(OpKind::kParameter, bucket.name, storage,
                                                {Pass::kForward, bucket.unit, -1},
                                                static_cast<int>(b)));
  }
}

void TransformerBuilder::add_serve_inputs() {
  const int head = layout_.num_units - 1;
  const auto input = [&](const char* name, const Shape& shape, int unit) {
    return g_.add_source(OpKind::kInput, name, integers(shape), {Pass::kForward, unit, -1});
  };
  const int64_t tokens = serve_->tokens;
  out_.tokens = input("tokens", {tokens}, 0);
  for (int unit = 0, stage = -1; unit <= head; ++unit) {
    if ((*stage_of_unit_)[static_cast<size_t>(unit)] == stage) continue;
    ++stage;
    out_.serve.stages.push_back(
        {input("positions", {tokens}, unit), input("slots", {tokens}, unit),
         input("first_row", {serve_->sequences + 1}, unit),
         input("kv_len", {serve_->sequences}, unit),
         input("pages", {serve_->sequences, serve_->pages_per_sequence}, unit)});
  }
  out_.serve.rows = input("rows", {serve_->rows}, head);
  add_storage();
  add_caches();
}

// The heads of a page where those are that make them: split like the rows of their weights.
void TransformerBuilder::add_caches() {
  const int64_t columns = 2 * model_.kv_heads * serve_->page_size * model_.head_dim;
  TensorType type{spec_.train.dtype, {serve_->num_pages, columns}, {}};
  for (const Axis axis : kAllAxes) {
    if (is_data_axis(axis)) type.placements[index_of(axis)] = split(0);
  }
  type.placements[index_of(Axis::kTp)] = splits_kv_heads(model_, mesh_) ? split(1) : replicate();
  for (int64_t layer = 0; layer < model_.layers; ++layer) {
    const Tag tag{Pass::kForward, static_cast<int>(layer) + 1, -1};
    out_.serve.caches.push_back(
        g_.add_source(OpKind::kCache, fmt::format("layers.{}.cache", layer), type, tag));
  }
}

const ServeInputs& TransformerBuilder::serve_inputs() const {
  const int stage = (*stage_of_unit_)[static_cast<size_t>(tag_.unit)];
  return out_.serve.stages[static_cast<size_t>(stage)];
}

// Makes the weights of a unit usable: storage (S or I) -> R on the data axes. With ZeRO-3 this is
// the just-in-time all-gather; its gradient is the reduce-scatter or all-reduce. Outer axes first,
// so that their sum, which comes last in the gradient, runs over shards.
void TransformerBuilder::open_unit(int unit) {
  tag_ = {Pass::kForward, unit, -1};
  const auto first = std::partition_point(layout_.buckets.begin(), layout_.buckets.end(),
                                          [&](const Bucket& b) { return b.unit < unit; });
  for (auto b = static_cast<size_t>(first - layout_.buckets.begin());
       b < layout_.buckets.size() && layout_.buckets[b].unit == unit; ++b) {
    const Bucket& bucket = layout_.buckets[b];
    Attrs attrs;
    attrs.bucket = static_cast<int>(b);
    attrs.to = replicate();
    ValueId full = out_.bucket_storage[b];
    std::vector<AxisSet> casts = {layout_.replica_axes_of(bucket), layout_.shard_axes_of(bucket)};
    if (casts[1].contains(Axis::kDp)) std::swap(casts[0], casts[1]);
    if (bucket.weights.front().type.on(Axis::kTp) == replicate()) {
      // Lanes are complete before anything else is added to them, so tp comes last there.
      casts.insert(spec_.train.lanes > 0 ? casts.begin() : casts.end(), Axis::kTp);
    }
    for (const AxisSet axes : casts) {
      if (axes.empty()) continue;
      attrs.axes = axes;
      full = g_.add_one(OpKind::kCast, {full}, bucket.name + ".full", attrs, tag_);
    }
    Attrs views;
    views.bucket = static_cast<int>(b);
    std::vector<std::string> names;
    for (const Weight& w : bucket.weights) {
      views.view_types.push_back(w.type);
      names.push_back(w.name + ".weight");
    }
    const std::vector<ValueId> ids = g_.add(OpKind::kViews, {full}, names, views, tag_);
    for (size_t i = 0; i < ids.size(); ++i) weights_[bucket.weights[i].name] = ids[i];
  }
}

// The first `heads` heads of a projection: bias, norm of each head, rotation.
ValueId TransformerBuilder::heads(ValueId full_TH, const std::string& at, int64_t heads,
                                  const std::string& norm_name) {
  ValueId x = linear(full_TH, weight(at), at);
  if (model_.attention_bias != AttentionBias::kNone) x = add_bias(x, at);
  Attrs attrs;
  attrs.heads = heads;
  attrs.head_dim = model_.head_dim;
  attrs.seq_len = spec_.train.seq_len;
  attrs.eps = model_.norm_eps;
  if (model_.qk_norm) {
    x = g_.add(OpKind::kHeadNorm, {x, weight(norm_name)}, {norm_name, norm_name + ".rstd"}, attrs,
               tag_)
            .front();
  }
  if (model_.positions != PositionKind::kRope) return x;
  attrs.eps = 0;
  if (serve_ != nullptr) {
    // Keys are turned on their way into the cache.
    if (at.ends_with(".kv")) return x;
    return g_.add_one(OpKind::kRopeAt, {x, serve_inputs().positions}, at + ".rope", attrs, tag_);
  }
  return g_.add_one(OpKind::kRope, {x}, at + ".rope", attrs, tag_);
}

ValueId TransformerBuilder::attention(ValueId x_TH, const std::string& at) {
  const ValueId full_TH = enter_tp(norm(x_TH, at + ".attn_norm"), at + ".attn_norm.full");
  const ValueId q_TQ = heads(full_TH, at + ".q", model_.heads, at + ".q_norm");
  const ValueId kv_TE = heads(full_TH, at + ".kv", model_.kv_heads, at + ".k_norm");  // keys only
  const ValueId o_TQ =
      serve_ != nullptr ? attended_pages(q_TQ, kv_TE, at) : attended(q_TQ, kv_TE, at);
  const ValueId partial_TH = linear(o_TQ, weight(at + ".o"), at + ".o");
  ValueId y_TH = leave_tp(partial_TH, at + ".o.sum");
  if (model_.attention_bias == AttentionBias::kAll) y_TH = add_bias(y_TH, at + ".o");
  y_TH = drop(y_TH, DropoutSite::kAttentionOutput, at + ".o.dropped");
  return g_.add_one(OpKind::kAdd, {x_TH, y_TH}, at + ".mid", {}, tag_);
}

Attrs TransformerBuilder::attention_attrs() const {
  Attrs attrs;
  attrs.heads = model_.heads;
  attrs.kv_heads = model_.kv_heads;
  attrs.head_dim = model_.head_dim;
  attrs.seq_len = spec_.train.seq_len;
  attrs.window = model_.sliding_window;
  return attrs;
}

ValueId TransformerBuilder::attended(ValueId q_TQ, ValueId kv_TE, const std::string& at) {
  const auto [queries, keys] = enter_cp(q_TQ, kv_TE, at);
  Attrs attrs = attention_attrs();
  if (training_) {
    attrs.dropout = model_.attention_dropout;
    attrs.site = DropoutSite::kAttention;
  }
  const ValueId o_TQ =
      g_.add(OpKind::kAttention, {queries, keys}, {at + ".attn", at + ".attn.lse"}, attrs, tag_)
          .front();
  return leave_cp(o_TQ, at);
}

// First into the pages, then out of them: a token's own key is read like all others.
ValueId TransformerBuilder::attended_pages(ValueId q_TQ, ValueId kv_TE, const std::string& at) {
  const ServeInputs& in = serve_inputs();
  const auto layer = static_cast<size_t>(tag_.unit) - 1;
  Attrs attrs = attention_attrs();
  attrs.page_size = serve_->page_size;
  Attrs keys = attrs;
  keys.heads = model_.kv_heads;
  keys.window = 0;
  const ValueId cache =
      g_.add_one(OpKind::kCacheWrite, {out_.serve.caches[layer], kv_TE, in.positions, in.slots},
                 at + ".cache.filled", keys, tag_);
  return g_.add_one(OpKind::kPagedAttention, {q_TQ, cache, in.first_row, in.kv_len, in.pages},
                    at + ".attn", attrs, tag_);
}

// What attention needs where tokens are split over cp: with "ring" they stay, and a pass brings the
// keys round; with "allgather" every rank gets all keys and values; with "ulysses" every rank gets
// all tokens of some heads. Key heads that cp does not divide are gathered.
std::pair<ValueId, ValueId> TransformerBuilder::enter_cp(ValueId q_TQ, ValueId kv_TE,
                                                         const std::string& at) {
  const ContextKind kind = spec_.parallel.cp_kind;
  const int64_t cp = mesh_.size(Axis::kCp);
  if (cp == 1 || kind == ContextKind::kRing) return {q_TQ, kv_TE};
  if (kind == ContextKind::kAllGather) {
    return {q_TQ, g_.cast(kv_TE, Axis::kCp, replicate(), at + ".kv.all", tag_)};
  }
  const ValueId q = g_.cast(q_TQ, Axis::kCp, split(1), at + ".q.heads", tag_);
  const bool divides = model_.kv_heads % (mesh_.size(Axis::kTp) * cp) == 0;
  if (!divides) return {q, g_.cast(kv_TE, Axis::kCp, replicate(), at + ".kv.all", tag_)};
  Attrs attrs;
  attrs.axes = Axis::kCp;
  attrs.to = split(1);
  attrs.column_groups = 2;  // keys and values
  return {q, g_.add_one(OpKind::kCast, {kv_TE}, at + ".kv.heads", attrs, tag_)};
}

ValueId TransformerBuilder::leave_cp(ValueId o_TQ, const std::string& at) {
  if (!(g_.type(o_TQ).on(Axis::kCp) == split(1))) return o_TQ;
  return g_.cast(o_TQ, Axis::kCp, split(0), at + ".attn.tokens", tag_);
}

ValueId TransformerBuilder::mlp(ValueId x_TH, const std::string& at) {
  const bool gated = model_.mlp == MlpKind::kSwiglu;
  const std::string up = at + (gated ? ".gate_up" : ".up");
  const ValueId full_TH = enter_tp(norm(x_TH, at + ".mlp_norm"), at + ".mlp_norm.full");
  ValueId u = linear(full_TH, weight(up), up);
  if (model_.mlp_bias) u = add_bias(u, up);
  const ValueId h_TF = gated ? g_.add_one(OpKind::kSwiGlu, {u}, at + ".swiglu", {}, tag_)
                             : g_.add_one(OpKind::kGelu, {u}, at + ".gelu", {}, tag_);
  const ValueId partial_TH = linear(h_TF, weight(at + ".down"), at + ".down");
  ValueId y_TH = leave_tp(partial_TH, at + ".down.sum");
  if (model_.mlp_bias) y_TH = add_bias(y_TH, at + ".down");
  y_TH = drop(y_TH, DropoutSite::kMlpOutput, at + ".down.dropped");
  return g_.add_one(OpKind::kAdd, {x_TH, y_TH}, at + ".out", {}, tag_);
}

ValueId TransformerBuilder::moe(ValueId x_TH, int64_t layer) {
  const std::string at = fmt::format("layers.{}", layer);
  const MoeWeights weights{weight(at + ".router"), weight(at + ".expert_gate_up"),
                           weight(at + ".expert_down")};
  const ValueId n_TH = norm(x_TH, at + ".mlp_norm");
  const MoeOutput out = build_moe(g_, spec_, mesh_, n_TH, weights, layer, router_stats_, serve_);
  router_stats_ = out.stats;
  const ValueId y_TH = drop(out.y_TH, DropoutSite::kMlpOutput, at + ".experts.dropped");
  return g_.add_one(OpKind::kAdd, {x_TH, y_TH}, at + ".out", {}, tag_);
}

// Logits exist only for one chunk of tokens at a time. Each rank reduces its part of the vocabulary
// to three numbers per token; gathering those is the only communication.
void TransformerBuilder::loss(ValueId x_TH, ValueId table_VH) {
  const int64_t ranks = spec_.parallel.replicas() * spec_.parallel.cp;  // that split the tokens
  const int64_t local_tokens = g_.type(x_TH).shape[0] / ranks;
  const int64_t all = loss_chunks(spec_);
  const int64_t taken = most_chunks_ > 0 ? std::min(all, most_chunks_) : all;
  const int64_t chunk = spec_.train.loss_chunk;
  Attrs slices;
  slices.lengths.assign(static_cast<size_t>(taken), chunk * ranks);
  slices.lengths.back() = (local_tokens - (all - 1) * chunk) * ranks;
  slices.rows = (all - taken) * chunk * ranks;
  std::vector<std::string> x_names;
  std::vector<std::string> label_names;
  for (size_t c = 0; c < slices.lengths.size(); ++c) {
    x_names.push_back(fmt::format("head.x.{}", c));
    label_names.push_back(fmt::format("labels.{}", c));
  }
  const std::vector<ValueId> x_chunks = g_.add(OpKind::kSlice, {x_TH}, x_names, slices, tag_);
  const std::vector<ValueId> labels =
      g_.add(OpKind::kSlice, {out_.labels}, label_names, slices, tag_);
  Attrs attrs;
  attrs.vocab = model_.vocab;
  attrs.parts = mesh_.size(Axis::kTp);
  for (size_t c = 0; c < x_chunks.size(); ++c) {
    tag_.chunk = static_cast<int>(c);
    const ValueId logits_TV = linear(x_chunks[c], table_VH, fmt::format("logits.{}", c));
    const ValueId part = g_.add_one(OpKind::kCrossEntropyStats, {logits_TV, labels[c]},
                                    fmt::format("loss.stats.{}", c), attrs, tag_);
    const ValueId stats =
        g_.cast(part, Axis::kTp, invariant(), fmt::format("loss.stats.{}.full", c), tag_);
    std::vector<ValueId> inputs = {stats, labels[c], logits_TV};
    const bool more = out_.loss != kNoValue;
    if (more) inputs.push_back(out_.loss);
    out_.loss = g_.add_one(OpKind::kCrossEntropyLoss, inputs, "loss", attrs, tag_, more);
  }
  tag_.chunk = -1;
}

ValueId TransformerBuilder::embedding() {
  Attrs attrs;
  attrs.vocab = model_.vocab;
  const ValueId partial_TH =
      g_.add_one(OpKind::kEmbedding, {out_.tokens, weight("embed")}, "embed", attrs, tag_);
  const ValueId x_TH = leave_tp(partial_TH, "embed.sum");
  if (model_.positions != PositionKind::kLearned) return x_TH;
  if (serve_ != nullptr) {
    return g_.add_one(OpKind::kPositionsAt, {x_TH, weight("positions"), serve_inputs().positions},
                      "embed.placed", {}, tag_);
  }
  attrs = {};
  attrs.seq_len = spec_.train.seq_len;
  return g_.add_one(OpKind::kAddPositions, {x_TH, weight("positions")}, "embed.placed", attrs,
                    tag_);
}

ValueId TransformerBuilder::blocks(ValueId x_TH) {
  for (int64_t layer = 0; layer < model_.layers; ++layer) {
    const std::string at = fmt::format("layers.{}", layer);
    open_unit(static_cast<int>(layer) + 1);
    x_TH = attention(x_TH, at);
    x_TH = model_.experts > 0 ? moe(x_TH, layer) : mlp(x_TH, at);
  }
  return x_TH;
}

// The logits of each rank's part of the vocabulary, then of all parts on every rank.
ForwardGraph TransformerBuilder::serve(const ServeStep& shape,
                                       const std::vector<int>& stage_of_unit) {
  serve_ = &shape;
  stage_of_unit_ = &stage_of_unit;
  add_serve_inputs();
  open_unit(0);
  const ValueId x_TH = blocks(embedding());
  open_unit(layout_.num_units - 1);
  const ValueId x_RH =
      g_.add_one(OpKind::kTakeRows, {x_TH, out_.serve.rows}, "rows.taken", {}, tag_);
  const ValueId full_RH = enter_tp(norm(x_RH, "final_norm"), "final_norm.full");
  const ValueId table_VH = weight(model_.tied && !layout_.tied_across_stages() ? "embed" : "head");
  Attrs attrs;
  attrs.parts = mesh_.size(Axis::kTp);
  attrs.chunks = sum_chunks(g_.type(table_VH).shape[1], /*shared=*/false, 1);
  const ValueId part =
      g_.add_one(OpKind::kServeLogits, {full_RH, table_VH}, "logits.part", attrs, tag_);
  out_.logits = g_.cast(part, Axis::kTp, invariant(), "logits", tag_);
  return std::move(out_);
}

ForwardGraph TransformerBuilder::run(bool training, int64_t most_chunks) {
  most_chunks_ = most_chunks;
  sequence_parallel_ = spec_.parallel.sequence_parallel;
  training_ = training;
  add_inputs(training);
  open_unit(0);
  ValueId x_TH = drop(embedding(), DropoutSite::kEmbedding, "embed.dropped");
  x_TH = blocks(x_TH);
  open_unit(layout_.num_units - 1);
  const ValueId full_TH = enter_tp(norm(x_TH, "final_norm"), "final_norm.full");
  const ValueId table_VH = weight(model_.tied && !layout_.tied_across_stages() ? "embed" : "head");
  if (training) {
    loss(full_TH, table_VH);
    if (model_.router_aux_coef > 0) {
      out_.loss = build_balance_loss(g_, spec_, router_stats_, out_.labels, out_.loss, tag_);
    }
  } else {
    out_.logits = linear(full_TH, table_VH, "logits");
  }
  return std::move(out_);
}

}  // namespace

ForwardGraph build_transformer(const RunSpec& spec, const Mesh& mesh, const ParameterLayout& layout,
                               bool training) {
  return TransformerBuilder(spec, mesh, layout).run(training, /*most_chunks=*/0);
}

ForwardGraph build_transformer_of_chunks(const RunSpec& spec, const Mesh& mesh,
                                         const ParameterLayout& layout, int64_t most_chunks) {
  return TransformerBuilder(spec, mesh, layout).run(/*training=*/true, most_chunks);
}

ForwardGraph build_serving_transformer(const RunSpec& spec, const Mesh& mesh,
                                       const ParameterLayout& layout, const ServeStep& serve,
                                       const std::vector<int>& stage_of_unit) {
  return TransformerBuilder(spec, mesh, layout).serve(serve, stage_of_unit);
}

int64_t loss_chunks(const RunSpec& spec) {
  return ceil_div(spec.train.micro_batch * spec.train.seq_len / spec.parallel.cp,
                  spec.train.loss_chunk);
}

}  // namespace tessera
