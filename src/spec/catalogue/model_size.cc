#include "spec/catalogue/model_size.h"

namespace tessera {
namespace {

int64_t norm_size(const ModelSpec& m) {
  return m.norm == NormKind::kLayer ? 2 * m.hidden : m.hidden;
}

int64_t latent_attention(const ModelSpec& m) {
  const int64_t queries = m.heads * m.head_dim;
  const int64_t plain = m.head_dim - m.rope_head_dim;  // columns of a key without positions
  int64_t size = m.query_rank > 0 ? m.hidden * m.query_rank + m.query_rank + m.query_rank * queries
                                  : m.hidden * queries;
  size += m.hidden * (m.kv_rank + m.rope_head_dim) + m.kv_rank;
  size += m.kv_rank * m.heads * (plain + value_columns(m));
  return size + m.heads * value_columns(m) * m.hidden;
}

int64_t attention_size(const ModelSpec& m) {
  if (m.kv_rank > 0) return latent_attention(m);
  const int64_t q = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
  int64_t size = 2 * m.hidden * (q + kv);
  if (m.attention_bias != AttentionBias::kNone) size += q + 2 * kv;
  if (m.attention_bias == AttentionBias::kAll) size += m.hidden;
  if (m.qk_norm) size += 2 * m.head_dim;
  return size;
}

int64_t mlp_size(const ModelSpec& m, int64_t width) {
  const int64_t up = gated(m) ? 2 : 1;
  return (up + 1) * m.hidden * width + (m.mlp_bias ? up * width + m.hidden : 0);
}

// A block of its own after a product that joins the stream with the next token's embedding
// (DeepSeek-V3, section 2.2); embedding and head are the model's.
int64_t prediction_size(const ModelSpec& m, int64_t block) {
  return m.mtp_layers * (block + 2 * m.hidden * m.hidden + 3 * norm_size(m));
}

}  // namespace

int64_t key_columns(const ModelSpec& model) { return model.head_dim; }

int64_t value_columns(const ModelSpec& model) {
  return model.value_head_dim > 0 ? model.value_head_dim : model.head_dim;
}

bool gated(const ModelSpec& model) { return model.mlp == MlpKind::kSwiglu; }

ModelSize model_size(const ModelSpec& m) {
  ModelSize size;
  size.attention = attention_size(m);
  size.norms = (m.parallel_block ? 1 : 2) * norm_size(m);
  size.dense_mlp = mlp_size(m, m.ffn);
  size.dense_count = m.experts > 0 ? m.dense_layers : m.layers;
  size.moe_count = m.layers - size.dense_count;
  if (m.experts > 0) {
    const int64_t router = m.hidden * m.experts;
    const int64_t expert = mlp_size(m, m.moe_ffn > 0 ? m.moe_ffn : m.ffn);
    const int64_t shared = m.shared_ffn > 0 ? mlp_size(m, m.shared_ffn) : 0;
    size.experts = router + m.experts * expert + shared;
    size.passed = router + m.experts_per_token * expert + shared;
  }
  const int64_t common = size.attention + size.norms;
  const int64_t last_mlp = m.experts > 0 ? size.experts : size.dense_mlp;
  const int64_t last_passed = m.experts > 0 ? size.passed : size.dense_mlp;
  size.prediction = prediction_size(m, common + last_mlp);
  const int64_t positions = m.positions == PositionKind::kLearned ? m.max_positions : 0;
  size.tables = (m.vocab + positions) * m.hidden + (m.embedding_norm ? norm_size(m) : 0);
  size.head = norm_size(m) + (m.tied ? 0 : m.vocab * m.hidden);
  const int64_t outside = size.tables + size.head + m.layers * common;
  const int64_t dense = size.dense_count * size.dense_mlp;
  size.total = outside + dense + size.moe_count * size.experts + size.prediction;
  size.active =
      outside + dense + size.moe_count * size.passed + prediction_size(m, common + last_passed);
  return size;
}

}  // namespace tessera
