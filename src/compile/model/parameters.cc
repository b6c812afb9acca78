#include "compile/model/parameters.h"

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "compile/model/decay_rule.h"
#include "graph/op.h"
#include "spec/run_file/validate_experts.h"

namespace tessera {
namespace {

constexpr int64_t kAlign = 16;  // elements: 64 bytes of f32

// Products on a GPU want rows of logits that begin on whole lines of its memory.
int64_t vocabulary_multiple(const RunSpec& spec) {
  return spec.train.device == TrainDevice::kCuda ? 128 : 1;
}

bool of_vocabulary(const std::string& weight) { return weight == "embed" || weight == "head"; }

class Layout {
 public:
  Layout(const RunSpec& spec, const Mesh& mesh)
      : spec_(spec), mesh_(mesh), tp_(mesh.size(Axis::kTp)), decay_(spec.optimizer) {
    const bool fsdp = mesh.size(fsdp_axes()) > 1;
    layout_.shard_axes = (fsdp ? fsdp_axes() : AxisSet(Axis::kDp)).with(Axis::kCp);
    layout_.replica_axes = fsdp ? AxisSet(Axis::kDp) : fsdp_axes();
    layout_.shards = mesh.size(layout_.shard_axes);
    if (spec.model.experts > 0) split_experts();
  }

  ParameterLayout run(bool copy_tied);

 private:
  // Who reads a weight that tp does not split: the residual stream, which all ranks share unless
  // sequence parallelism splits its tokens, or heads, which differ from rank to rank.
  enum class Use : uint8_t { kResidual, kHeads };

  void add_block(int64_t layer);
  void add_attention(const std::string& at, int64_t layer);
  void add_mlp(const std::string& at, int64_t layer);
  void begin_unit(std::string name) {
    unit_name_ = std::move(name);
    unit_ = layout_.num_units++;
    first_of_unit_ = layout_.buckets.size();
  }
  // Stacks `parts`, which have the same columns and are split along `split_dim`.
  void add_matrix(const std::string& name, std::vector<LogicalTensor> parts, int split_dim,
                  Use use = Use::kHeads);
  // Puts `parts` one after another; tp splits each of them, or none.
  void add_vector(const std::string& name, std::vector<LogicalTensor> parts, bool split, Use use);
  void add_norm(const std::string& name, ModelPart part, int64_t layer);
  void copy_embedding();
  void split_experts();
  void add_moe(const std::string& ours, const std::string& theirs);
  void add_experts(const std::string& name, const std::string& prefix,
                   const std::vector<std::string>& parts, int64_t rows, int64_t cols);
  Bucket& bucket_for(const Placement& on_tp, const Weight& weight, bool matrix,
                     bool experts = false);
  void place(Bucket& bucket, Weight weight);
  [[nodiscard]] TensorType weight_type(const Shape& shape, int split_dim, Use use) const;

  const RunSpec& spec_;
  const Mesh& mesh_;
  int64_t tp_;
  std::string unit_name_;
  int unit_ = 0;
  size_t first_of_unit_ = 0;  // bucket
  DecayRule decay_;
  int num_tensors_ = 0;
  ParameterLayout layout_;
};

// Replicated weights are stored as I on tp; they are used as R where each rank sees other tokens or
// other heads, and as I where all ranks do the same.
TensorType Layout::weight_type(const Shape& shape, int split_dim, Use use) const {
  TensorType type{spec_.train.dtype, shape, {}};
  for (const Axis axis : kAllAxes) {
    if (is_data_axis(axis)) type.placements[index_of(axis)] = replicate();
  }
  Placement on_tp = split_dim >= 0 ? split(split_dim) : replicate();
  if (split_dim < 0 && use == Use::kResidual && !spec_.parallel.sequence_parallel) {
    on_tp = invariant();
  }
  type.placements[index_of(Axis::kTp)] = on_tp;
  return type;
}

Bucket& Layout::bucket_for(const Placement& on_tp, const Weight& weight, bool matrix,
                           bool experts) {
  const bool decay = decay_.of(weight.parts, matrix);
  const bool split_on_tp = on_tp.kind == Placement::Kind::kSplit && !experts;
  const int64_t limit = spec_.parallel.bucket_mb * 1'000'000;
  const int64_t element = size_bytes(spec_.train.gradient_type());
  int same_kind = 0;
  for (size_t b = first_of_unit_; b < layout_.buckets.size(); ++b) {
    Bucket& bucket = layout_.buckets[b];
    const bool same_rule = bucket.matrices == matrix && bucket.decay == decay;
    if (bucket.split_on_tp != split_on_tp || !same_rule || bucket.experts != experts) continue;
    if (!split_on_tp && !(bucket.weights.front().type.on(Axis::kTp) == on_tp)) continue;
    if (bucket.numel * element < limit) return bucket;
    ++same_kind;
  }
  const bool shared = on_tp == replicate() && !spec_.parallel.sequence_parallel;
  const char* matrices = experts ? "experts" : split_on_tp ? "matrices" : "replicated";
  const char* vectors = split_on_tp ? "biases" : shared ? "shared" : "norms";
  Bucket bucket;
  const char* unusual = decay == matrix ? "" : decay ? ".decayed" : ".undecayed";
  bucket.name = fmt::format("{}.{}{}{}", unit_name_, matrix ? matrices : vectors, unusual,
                            same_kind > 0 ? std::to_string(same_kind + 1) : "");
  bucket.unit = unit_;
  bucket.split_on_tp = split_on_tp;
  bucket.matrices = matrix;
  bucket.decay = decay;
  bucket.experts = experts;
  layout_.buckets.push_back(std::move(bucket));
  return layout_.buckets.back();
}

void Layout::place(Bucket& bucket, Weight weight) {
  weight.offset = round_up(bucket.numel, kAlign);
  for (LogicalTensor& part : weight.parts) {
    part.local_offset += weight.offset;
    part.order = num_tensors_++;
    layout_.num_parameters += numel(part.shape);
  }
  bucket.numel = weight.offset + numel(weight.local_shape);
  bucket.weights.push_back(std::move(weight));
}

void Layout::add_matrix(const std::string& name, std::vector<LogicalTensor> parts, int split_dim,
                        Use use) {
  Weight weight;
  weight.name = name;
  weight.parts = std::move(parts);
  const int64_t cols = weight.parts.front().cols();
  const int64_t local_cols = split_dim == 1 ? round_up(cols, tp_) / tp_ : cols;
  int64_t local_rows = 0;
  for (LogicalTensor& part : weight.parts) {
    const int64_t multiple = of_vocabulary(weight.name) ? vocabulary_multiple(spec_) : 1;
    const int64_t part_rows =
        split_dim == 0 ? round_up(part.rows(), tp_ * multiple) / tp_ : part.rows();
    part.split_dim = split_dim;
    part.local_size = split_dim == 1 ? local_cols : part_rows;
    part.local_offset = local_rows * local_cols;
    local_rows += part_rows;
  }
  weight.local_shape = {local_rows, local_cols};
  const Shape padded = {split_dim == 0 ? local_rows * tp_ : local_rows,
                        split_dim == 1 ? local_cols * tp_ : local_cols};
  weight.type = weight_type(padded, split_dim, use);
  const Placement on_tp = weight.type.on(Axis::kTp);
  Bucket& bucket = bucket_for(on_tp, weight, /*matrix=*/true);
  place(bucket, std::move(weight));
}

void Layout::add_vector(const std::string& name, std::vector<LogicalTensor> parts, bool split,
                        Use use) {
  Weight weight;
  weight.name = name;
  weight.parts = std::move(parts);
  int64_t local = 0;
  for (LogicalTensor& part : weight.parts) {
    part.split_dim = split ? 0 : -1;
    part.local_size = split ? round_up(part.cols(), tp_) / tp_ : part.cols();
    part.local_offset = local;
    local += part.local_size;
  }
  weight.local_shape = {local};
  weight.type = weight_type({split ? local * tp_ : local}, split ? 0 : -1, use);
  const Placement on_tp = weight.type.on(Axis::kTp);
  Bucket& bucket = bucket_for(on_tp, weight, /*matrix=*/false);
  place(bucket, std::move(weight));
}

void Layout::add_norm(const std::string& name, ModelPart part, int64_t layer) {
  add_vector(name, {weight_of(spec_.model, part, layer)}, /*split=*/false, Use::kResidual);
  if (spec_.model.norm != NormKind::kLayer) return;
  add_vector(name + ".bias", {bias_of(spec_.model, part, layer)}, /*split=*/false, Use::kResidual);
}

void Layout::add_attention(const std::string& at, int64_t layer) {
  const ModelSpec& m = spec_.model;
  const auto weight = [&](ModelPart part) { return weight_of(m, part, layer); };
  const auto bias = [&](ModelPart part) { return bias_of(m, part, layer); };
  const bool split_kv = splits_kv_heads(m, mesh_);
  add_matrix(at + ".q", {weight(ModelPart::kQuery)}, 0);
  add_matrix(at + ".kv", {weight(ModelPart::kKey), weight(ModelPart::kValue)}, split_kv ? 0 : -1);
  if (m.attention_bias != AttentionBias::kNone) {
    add_vector(at + ".q.bias", {bias(ModelPart::kQuery)}, /*split=*/true, Use::kHeads);
    add_vector(at + ".kv.bias", {bias(ModelPart::kKey), bias(ModelPart::kValue)}, split_kv,
               Use::kHeads);
  }
  if (m.qk_norm) {
    add_vector(at + ".q_norm", {weight(ModelPart::kQueryNorm)}, /*split=*/false, Use::kHeads);
    add_vector(at + ".k_norm", {weight(ModelPart::kKeyNorm)}, /*split=*/false, Use::kHeads);
  }
  add_matrix(at + ".o", {weight(ModelPart::kAttnOut)}, 1);
  if (m.attention_bias == AttentionBias::kAll) {
    add_vector(at + ".o.bias", {bias(ModelPart::kAttnOut)}, /*split=*/false, Use::kResidual);
  }
}

void Layout::add_mlp(const std::string& at, int64_t layer) {
  const ModelSpec& m = spec_.model;
  std::vector<ModelPart> into = {ModelPart::kUp};
  if (m.mlp == MlpKind::kSwiglu) into.insert(into.begin(), ModelPart::kGate);
  const std::string name = at + (m.mlp == MlpKind::kSwiglu ? ".gate_up" : ".up");
  std::vector<LogicalTensor> weights;
  std::vector<LogicalTensor> biases;
  for (const ModelPart part : into) {
    weights.push_back(weight_of(m, part, layer));
    biases.push_back(bias_of(m, part, layer));
  }
  add_matrix(name, std::move(weights), 0);
  if (m.mlp_bias) add_vector(name + ".bias", std::move(biases), /*split=*/true, Use::kHeads);
  add_matrix(at + ".down", {weight_of(m, ModelPart::kDown, layer)}, 1);
  if (m.mlp_bias) {
    add_vector(at + ".down.bias", {bias_of(m, ModelPart::kDown, layer)}, /*split=*/false,
               Use::kResidual);
  }
}

// The same weights in the same places, so that both ends shard alike and may sum their gradients.
void Layout::copy_embedding() {
  Bucket copy = layout_.buckets[static_cast<size_t>(layout_.tied_bucket())];
  TESSERA_CHECK(copy.weights.size() == 1, "the tied embedding shares its bucket");
  copy.name = unit_name_ + ".tied";
  copy.unit = unit_;
  copy.copy_of = layout_.tied_bucket();
  copy.weights.front().name = "head";
  layout_.buckets.push_back(std::move(copy));
}

void Layout::add_block(int64_t layer) {
  const std::string at = fmt::format("layers.{}", layer);
  begin_unit(at);
  add_norm(at + ".attn_norm", ModelPart::kAttnNorm, layer);
  add_attention(at, layer);
  add_norm(at + ".mlp_norm", ModelPart::kMlpNorm, layer);
  if (spec_.model.experts > 0) {
    add_moe(at, fmt::format("model.layers.{}.block_sparse_moe", layer));
  } else {
    add_mlp(at, layer);
  }
}

void Layout::split_experts() {
  const ExpertSplit split = expert_split(spec_.parallel);
  AxisSet& axes = layout_.expert_axes;
  if (split.fsdp > 1) {
    axes = axes.with(split.fsdp == spec_.parallel.fsdp ? Axis::kFsdp : Axis::kFsdpIn);
  }
  if (split.cp) axes = axes.with(Axis::kCp);
  if (split.tp) axes = axes.with(Axis::kTp);
  layout_.expert_shard_axes = layout_.shard_axes.without(axes);
  layout_.expert_replica_axes = layout_.replica_axes.without(axes);
  // Where ep takes all that other weights are split over, ZeRO has the replicas.
  if (mesh_.size(layout_.expert_shard_axes) == 1) {
    layout_.expert_shard_axes = layout_.expert_shard_axes.with(layout_.expert_replica_axes);
    layout_.expert_replica_axes = AxisSet();
  }
  layout_.expert_shards = mesh_.size(layout_.expert_shard_axes);
}

// parts: logical names of one expert's matrices, stacked; each is rows x cols. The experts are
// stacked too: [experts, parts * rows, cols].
void Layout::add_experts(const std::string& name, const std::string& prefix,
                         const std::vector<std::string>& parts, int64_t rows, int64_t cols) {
  const int64_t experts = spec_.model.experts;
  const int64_t local = experts / mesh_.size(layout_.expert_axes);
  const auto count = static_cast<int64_t>(parts.size());
  Weight weight;
  weight.name = name;
  for (int64_t e = 0; e < experts; ++e) {
    for (int64_t i = 0; i < count; ++i) {
      const std::string& part_name = parts[static_cast<size_t>(i)];
      LogicalTensor part =
          named_tensor(fmt::format("{}.experts.{}.{}.weight", prefix, e, part_name), {rows, cols});
      part.local_size = rows;
      part.local_offset = (e % local * count + i) * rows * cols;
      part.holder = e / local;
      if (part_name == "w2") part.init = Init::kResidual;
      weight.parts.push_back(std::move(part));
    }
  }
  weight.local_shape = {local, count * rows, cols};
  weight.type = weight_type({experts, count * rows, cols}, -1, Use::kHeads);
  for (const Axis axis : kAllAxes) {
    if (layout_.expert_axes.contains(axis)) weight.type.placements[index_of(axis)] = split(0);
  }
  const Placement on_tp = weight.type.on(Axis::kTp);
  Bucket& bucket = bucket_for(on_tp, weight, /*matrix=*/true, /*experts=*/true);
  place(bucket, std::move(weight));
}

void Layout::add_moe(const std::string& ours, const std::string& theirs) {
  const ModelSpec& m = spec_.model;
  add_matrix(ours + ".router", {named_tensor(theirs + ".gate.weight", {m.experts, m.hidden})}, -1);
  add_experts(ours + ".expert_gate_up", theirs, {"w1", "w3"}, m.moe_ffn, m.hidden);
  add_experts(ours + ".expert_down", theirs, {"w2"}, m.hidden, m.moe_ffn);
}

ParameterLayout Layout::run(bool copy_tied) {
  const ModelSpec& m = spec_.model;
  begin_unit("embed");
  add_matrix("embed", {weight_of(m, ModelPart::kEmbed, 0)}, 0);
  if (m.positions == PositionKind::kLearned) {
    add_matrix("positions", {weight_of(m, ModelPart::kPositions, 0)}, -1, Use::kResidual);
  }
  for (int64_t layer = 0; layer < m.layers; ++layer) add_block(layer);
  begin_unit("head");
  add_norm("final_norm", ModelPart::kFinalNorm, 0);
  if (!m.tied) add_matrix("head", {weight_of(m, ModelPart::kHead, 0)}, 0);
  if (copy_tied) copy_embedding();
  decay_.require_all_used();
  for (Bucket& bucket : layout_.buckets) {
    bucket.numel = round_up(bucket.numel, kAlign * layout_.shards_of(bucket));
  }
  return std::move(layout_);
}

}  // namespace

Mesh mesh_of(const ParallelSpec& p) {
  const int64_t part = p.ep > 1 ? expert_split(p).fsdp : 1;
  return Mesh({p.pp, p.dp, p.fsdp, p.cp, p.tp}, part == p.fsdp ? 1 : part);
}

bool splits_kv_heads(const ModelSpec& model, const Mesh& mesh) {
  return model.kv_heads % mesh.size(Axis::kTp) == 0;
}

int64_t padded_vocabulary(const RunSpec& spec) {
  return round_up(spec.model.vocab, spec.parallel.tp * vocabulary_multiple(spec));
}

ParameterLayout layout_parameters(const RunSpec& spec, const Mesh& mesh, bool copy_tied) {
  return Layout(spec, mesh).run(copy_tied);
}

bool ParameterLayout::tied_across_stages() const {
  return std::any_of(buckets.begin(), buckets.end(),
                     [](const Bucket& bucket) { return bucket.copy_of >= 0; });
}

Piece piece_of(const LogicalTensor& tensor, int64_t position) {
  Piece piece{0, tensor.rows(), 0, tensor.cols(), tensor.local_offset, tensor.cols()};
  if (tensor.holder >= 0 && tensor.holder != position) piece.num_rows = 0;
  if (tensor.split_dim < 0) return piece;
  const bool by_rows = tensor.split_dim == 0 && tensor.shape.size() == 2;
  const int64_t size = by_rows ? tensor.rows() : tensor.cols();
  const int64_t first = std::min(position * tensor.local_size, size);
  const int64_t count = std::min(tensor.local_size, size - first);
  if (by_rows) {
    piece.first_row = first;
    piece.num_rows = count;
  } else {
    piece.first_col = first;
    piece.num_cols = count;
    piece.bucket_stride = tensor.local_size;
  }
  return piece;
}

}  // namespace tessera
