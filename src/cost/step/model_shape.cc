#include "cost/step/model_shape.h"

namespace tessera {

int64_t ModelShape::query_width() const {
  return latent ? heads * (mla.nope_dim + mla.rope_dim) : heads * head_dim;
}

int64_t ModelShape::value_width() const {
  return latent ? heads * mla.value_dim : heads * head_dim;
}

int64_t ModelShape::kv_width() const { return latent ? mla.kv_rank : kv_heads * head_dim; }

int64_t ModelShape::attention_parameters() const {
  const int64_t out = value_width() * hidden;
  if (!latent) return hidden * (query_width() + 2 * kv_width()) + out;
  const int64_t query =
      mla.query_rank > 0 ? mla.query_rank * (hidden + query_width()) : hidden * query_width();
  const int64_t key_value =
      hidden * (mla.kv_rank + mla.rope_dim) + mla.kv_rank * heads * (mla.nope_dim + mla.value_dim);
  return query + key_value + out;
}

int64_t ModelShape::mlp_parameters(int64_t width) const {
  return (gated_mlp ? 3 : 2) * hidden * width;
}

int64_t ModelShape::small_parameters() const {
  const int64_t norm = layer_norm ? 2 * hidden : hidden;
  int64_t count = 2 * norm;
  if (latent) count += mla.query_rank + mla.kv_rank;
  // Biases of the query, key, value and output products and of both halves of the MLP.
  if (biases) count += query_width() + 2 * kv_width() + hidden + ffn + hidden;
  return count;
}

int64_t ModelShape::table_parameters() const { return vocab * hidden; }

int64_t ModelShape::parameters() const {
  const int64_t dense = layers - moe_layers();
  const int64_t expert_layer =
      experts * mlp_parameters(moe_ffn) + mlp_parameters(shared_ffn) + hidden * experts;
  return layers * (attention_parameters() + small_parameters()) + dense * mlp_parameters(ffn) +
         moe_layers() * expert_layer + (tied ? 1 : 2) * table_parameters() +
         learned_positions * hidden + (layer_norm ? 2 * hidden : hidden);
}

int64_t ModelShape::active_parameters() const {
  return parameters() - moe_layers() * (experts - experts_per_token) * mlp_parameters(moe_ffn);
}

int64_t ModelShape::product_weights() const {
  const int64_t dense = layers - moe_layers();
  const int64_t expert_layer =
      experts_per_token * mlp_parameters(moe_ffn) + mlp_parameters(shared_ffn) + hidden * experts;
  const int64_t last_layer = experts > 0 ? expert_layer : mlp_parameters(ffn);
  // Both hidden states of a later token are joined by a product of their own.
  const int64_t later =
      attention_parameters() + last_layer + 2 * hidden * hidden + table_parameters();
  return layers * attention_parameters() + dense * mlp_parameters(ffn) +
         moe_layers() * expert_layer + table_parameters() + mtp_layers * later;
}

ModelShape shape_of(const ModelSpec& model, int64_t seq_len) {
  ModelShape shape;
  shape.layers = model.layers;
  shape.hidden = model.hidden;
  shape.ffn = model.ffn;
  shape.heads = model.heads;
  shape.kv_heads = model.kv_heads > 0 ? model.kv_heads : model.heads;
  shape.head_dim =
      model.head_dim > 0 || model.heads == 0 ? model.head_dim : model.hidden / model.heads;
  shape.vocab = model.vocab;
  shape.gated_mlp = model.mlp == MlpKind::kSwiglu;
  shape.tied = model.tied;
  shape.layer_norm = model.norm == NormKind::kLayer;
  shape.biases = model.mlp_bias;
  if (model.positions == PositionKind::kLearned) {
    shape.learned_positions = model.max_positions > 0 ? model.max_positions : seq_len;
  }
  shape.dropout = model.dropout > 0;
  shape.experts = model.experts;
  shape.experts_per_token = model.experts > 0 ? model.experts_per_token : 0;
  shape.moe_ffn = model.moe_ffn > 0 ? model.moe_ffn : model.ffn;
  shape.shared_ffn = model.shared_ffn;
  shape.dense_layers = model.experts > 0 ? model.dense_layers : 0;
  shape.mtp_layers = model.mtp_layers;
  shape.latent = model.kv_rank > 0;
  if (shape.latent) {
    const int64_t value = model.value_head_dim > 0 ? model.value_head_dim : shape.head_dim;
    shape.mla = {model.query_rank, model.kv_rank, shape.head_dim - model.rope_head_dim,
                 model.rope_head_dim, value};
  }
  return shape;
}

}  // namespace tessera
