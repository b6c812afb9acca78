#include "compile/parameters.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int64_t kAlign = 16;  // elements: 64 bytes of f32

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

class Layout {
 public:
  Layout(const RunSpec& spec, const Mesh& mesh)
      : spec_(spec), mesh_(mesh), tp_(mesh.size(Axis::kTp)) {
    const bool fsdp = mesh.size(Axis::kFsdp) > 1;
    layout_.shard_axes = AxisSet(fsdp ? Axis::kFsdp : Axis::kDp).with(Axis::kCp);
    layout_.replica_axes = fsdp ? Axis::kDp : Axis::kFsdp;
    layout_.shards = mesh.size(layout_.shard_axes);
  }

  ParameterLayout run(bool copy_tied);

 private:
  void add_block(int64_t layer);
  void begin_unit(std::string name) {
    unit_name_ = std::move(name);
    unit_ = layout_.num_units++;
  }
  // parts: {logical name, rows}; all have `cols` columns and are split along `split_dim`.
  void add_matrix(const std::string& name,
                  const std::vector<std::pair<std::string, int64_t>>& parts, int64_t cols,
                  int split_dim);
  void add_norm(const std::string& name, const std::string& logical);
  void copy_embedding();
  void add_mlp(const std::string& ours, const std::string& theirs);
  void add_moe(const std::string& ours, const std::string& theirs);
  void add_experts(const std::string& name, const std::string& prefix,
                   const std::vector<std::string>& parts, int64_t rows, int64_t cols);
  Bucket& bucket_for(bool split_on_tp, bool decay, bool experts = false);
  void place(Bucket& bucket, Weight weight);
  [[nodiscard]] TensorType weight_type(const Shape& shape, int split_dim, bool norm) const;

  const RunSpec& spec_;
  const Mesh& mesh_;
  int64_t tp_;
  std::string unit_name_;
  int unit_ = 0;
  int num_tensors_ = 0;
  ParameterLayout layout_;
};

// Replicated weights are stored as I on tp; they are used as R where each rank sees other tokens or
// other heads, and as I where all ranks do the same.
TensorType Layout::weight_type(const Shape& shape, int split_dim, bool norm) const {
  TensorType type{spec_.train.dtype, shape, {}};
  for (const Axis axis : {Axis::kDp, Axis::kFsdp, Axis::kCp})
    type.placements[index_of(axis)] = replicate();
  Placement on_tp = split_dim >= 0 ? split(split_dim) : replicate();
  if (norm && !spec_.parallel.sequence_parallel) on_tp = invariant();
  type.placements[index_of(Axis::kTp)] = on_tp;
  return type;
}

Bucket& Layout::bucket_for(bool split_on_tp, bool decay, bool experts) {
  const int64_t limit = spec_.parallel.bucket_mb * 1'000'000;
  const int64_t element = size_bytes(accumulate_type(spec_.train.dtype));
  int same_kind = 0;
  for (Bucket& bucket : layout_.buckets) {
    if (bucket.unit != unit_ || bucket.split_on_tp != split_on_tp || bucket.decay != decay ||
        bucket.experts != experts)
      continue;
    if (bucket.numel * element < limit) return bucket;
    ++same_kind;
  }
  const char* kind = !decay        ? "norms"
                     : experts     ? "experts"
                     : split_on_tp ? "matrices"
                                   : "replicated";
  Bucket bucket;
  bucket.name =
      fmt::format("{}.{}{}", unit_name_, kind, same_kind > 0 ? std::to_string(same_kind + 1) : "");
  bucket.unit = unit_;
  bucket.split_on_tp = split_on_tp;
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

void Layout::add_matrix(const std::string& name,
                        const std::vector<std::pair<std::string, int64_t>>& parts, int64_t cols,
                        int split_dim) {
  Weight weight;
  weight.name = name;
  int64_t local_rows = 0;
  const int64_t local_cols = split_dim == 1 ? round_up(cols, tp_) / tp_ : cols;
  for (const auto& [logical, rows] : parts) {
    LogicalTensor part{logical, {rows, cols}, split_dim, 0, local_rows * local_cols};
    const int64_t part_rows = split_dim == 0 ? round_up(rows, tp_) / tp_ : rows;
    part.local_size = split_dim == 1 ? local_cols : part_rows;
    local_rows += part_rows;
    weight.parts.push_back(std::move(part));
  }
  weight.local_shape = {local_rows, local_cols};
  const Shape padded = {split_dim == 0 ? local_rows * tp_ : local_rows,
                        split_dim == 1 ? local_cols * tp_ : local_cols};
  weight.type = weight_type(padded, split_dim, /*norm=*/false);
  place(bucket_for(split_dim >= 0, /*decay=*/true), std::move(weight));
}

void Layout::add_norm(const std::string& name, const std::string& logical) {
  const int64_t width = spec_.model.hidden;
  Weight weight;
  weight.name = name;
  weight.parts = {{logical, {width}, -1, width, 0}};
  weight.local_shape = {width};
  weight.type = weight_type({width}, -1, /*norm=*/true);
  place(bucket_for(/*split_on_tp=*/false, /*decay=*/false), std::move(weight));
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
  const ModelSpec& m = spec_.model;
  const std::string ours = fmt::format("layers.{}", layer);
  const std::string theirs = fmt::format("model.layers.{}", layer);
  begin_unit(ours);
  add_norm(ours + ".attn_norm", theirs + ".input_layernorm.weight");
  add_matrix(ours + ".q", {{theirs + ".self_attn.q_proj.weight", m.heads * m.head_dim}}, m.hidden,
             0);
  add_matrix(ours + ".kv",
             {{theirs + ".self_attn.k_proj.weight", m.kv_heads * m.head_dim},
              {theirs + ".self_attn.v_proj.weight", m.kv_heads * m.head_dim}},
             m.hidden, splits_kv_heads(m, mesh_) ? 0 : -1);
  add_matrix(ours + ".o", {{theirs + ".self_attn.o_proj.weight", m.hidden}}, m.heads * m.head_dim,
             1);
  add_norm(ours + ".mlp_norm", theirs + ".post_attention_layernorm.weight");
  if (m.experts > 0) {
    add_moe(ours, theirs + ".block_sparse_moe");
  } else {
    add_mlp(ours, theirs);
  }
}

void Layout::add_mlp(const std::string& ours, const std::string& theirs) {
  const ModelSpec& m = spec_.model;
  add_matrix(ours + ".gate_up",
             {{theirs + ".mlp.gate_proj.weight", m.ffn}, {theirs + ".mlp.up_proj.weight", m.ffn}},
             m.hidden, 0);
  add_matrix(ours + ".down", {{theirs + ".mlp.down_proj.weight", m.hidden}}, m.ffn, 1);
}

// parts: logical names of one expert's matrices, stacked; each is rows x cols. The experts are
// stacked too: [experts, parts * rows, cols].
void Layout::add_experts(const std::string& name, const std::string& prefix,
                         const std::vector<std::string>& parts, int64_t rows, int64_t cols) {
  const int64_t experts = spec_.model.experts;
  const auto count = static_cast<int64_t>(parts.size());
  Weight weight;
  weight.name = name;
  for (int64_t e = 0; e < experts; ++e) {
    for (int64_t i = 0; i < count; ++i) {
      LogicalTensor part{
          fmt::format("{}.experts.{}.{}.weight", prefix, e, parts[static_cast<size_t>(i)]),
          {rows, cols},
          -1,
          rows,
          (e * count + i) * rows * cols};
      weight.parts.push_back(std::move(part));
    }
  }
  weight.local_shape = {experts, count * rows, cols};
  weight.type = weight_type(weight.local_shape, -1, /*norm=*/false);
  place(bucket_for(/*split_on_tp=*/false, /*decay=*/true, /*experts=*/true), std::move(weight));
}

void Layout::add_moe(const std::string& ours, const std::string& theirs) {
  const ModelSpec& m = spec_.model;
  add_matrix(ours + ".router", {{theirs + ".gate.weight", m.experts}}, m.hidden, -1);
  add_experts(ours + ".expert_gate_up", theirs, {"w1", "w3"}, m.moe_ffn, m.hidden);
  add_experts(ours + ".expert_down", theirs, {"w2"}, m.hidden, m.moe_ffn);
}

ParameterLayout Layout::run(bool copy_tied) {
  const ModelSpec& m = spec_.model;
  begin_unit("embed");
  add_matrix("embed", {{"model.embed_tokens.weight", m.vocab}}, m.hidden, 0);
  for (int64_t layer = 0; layer < m.layers; ++layer) add_block(layer);
  begin_unit("head");
  add_norm("final_norm", "model.norm.weight");
  if (!m.tied) add_matrix("head", {{"lm_head.weight", m.vocab}}, m.hidden, 0);
  if (copy_tied) copy_embedding();
  for (Bucket& bucket : layout_.buckets) {
    bucket.numel = round_up(bucket.numel, kAlign * layout_.shards);
  }
  return std::move(layout_);
}

}  // namespace

Mesh mesh_of(const ParallelSpec& p) { return Mesh({p.pp, p.dp, p.fsdp, p.cp, p.tp}); }

bool splits_kv_heads(const ModelSpec& model, const Mesh& mesh) {
  return model.kv_heads % mesh.size(Axis::kTp) == 0;
}

ParameterLayout layout_parameters(const RunSpec& spec, const Mesh& mesh, bool copy_tied) {
  return Layout(spec, mesh).run(copy_tied);
}

bool ParameterLayout::tied_across_stages() const {
  return std::any_of(buckets.begin(), buckets.end(),
                     [](const Bucket& bucket) { return bucket.copy_of >= 0; });
}

Piece piece_of(const LogicalTensor& tensor, int64_t tp_coord) {
  Piece piece{0, tensor.rows(), 0, tensor.cols(), tensor.local_offset, tensor.cols()};
  if (tensor.split_dim < 0) return piece;
  const int64_t size = tensor.split_dim == 0 ? tensor.rows() : tensor.cols();
  const int64_t first = std::min(tp_coord * tensor.local_size, size);
  const int64_t count = std::min(tensor.local_size, size - first);
  if (tensor.split_dim == 0) {
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
