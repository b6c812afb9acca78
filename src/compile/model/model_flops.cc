#include "compile/model/model_flops.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.h"
#include "spec/catalogue/model_size.h"

namespace tessera {
namespace {

int64_t tokens_of(const RunSpec& spec) { return spec.train.global_batch * spec.train.seq_len; }

// That a token sees, on average: position p sees p + 1, or the window.
double keys_per_token(const RunSpec& spec) {
  const auto seq_len = static_cast<double>(spec.train.seq_len);
  if (spec.model.sliding_window == 0) return seq_len / 2;
  const double window = std::min(seq_len, static_cast<double>(spec.model.sliding_window));
  return window - window * window / (2 * seq_len);
}

// Columns of one layer. Scores cost as much as their product with the values where both are equally
// wide.
double columns_of_layer(const ModelSpec& m) {
  return static_cast<double>(m.heads) * static_cast<double>(key_columns(m) + value_columns(m)) / 2;
}

double attention_columns(const ModelSpec& m) {
  return static_cast<double>(m.layers + m.mtp_layers) * columns_of_layer(m);
}

// Weights of the products of one layer's attention.
int64_t attention_weights(const ModelSpec& m) {
  const int64_t q = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
  if (m.kv_rank == 0) return m.hidden * (q + 2 * kv) + q * m.hidden;
  const int64_t plain = m.head_dim - m.rope_head_dim;
  const int64_t queries = m.query_rank > 0 ? m.query_rank * (m.hidden + q) : m.hidden * q;
  const int64_t keys =
      m.hidden * (m.kv_rank + m.rope_head_dim) + m.kv_rank * m.heads * (plain + value_columns(m));
  return queries + keys + m.heads * value_columns(m) * m.hidden;
}

}  // namespace

int64_t product_weights(const ModelSpec& m) {
  const int64_t up = gated(m) ? 2 : 1;
  const int64_t matrices = (up + 1) * m.hidden;
  const int64_t moe_layers = m.experts > 0 ? m.layers - m.dense_layers + m.mtp_layers : 0;
  const int64_t layers = m.layers + m.mtp_layers;
  const int64_t width = m.moe_ffn > 0 ? m.moe_ffn : m.ffn;
  const int64_t moe =
      m.hidden * m.experts + matrices * (m.experts_per_token * width + m.shared_ffn);
  // The head once more for every later token, after a product of the stream and an embedding.
  const int64_t prediction = m.mtp_layers * m.hidden * (2 * m.hidden + m.vocab);
  return layers * attention_weights(m) + (layers - moe_layers) * matrices * m.ffn +
         moe_layers * moe + m.hidden * m.vocab + prediction;
}

ModelFlops model_flops(const RunSpec& spec) {
  const ModelSpec& m = spec.model;
  const auto tokens = static_cast<double>(tokens_of(spec));
  ModelFlops flops;
  flops.products = 6 * static_cast<double>(product_weights(m)) * tokens;
  flops.attention = 12 * attention_columns(m) * tokens * keys_per_token(spec);
  return flops;
}

std::string model_flops_text(const RunSpec& spec) {
  const ModelSpec& m = spec.model;
  return fmt::format(
      "6 * {} weights of products * {} tokens + 12 * {} layers * {:.10g} query columns * {} tokens "
      "* {:.6g} keys seen",
      with_thousands(product_weights(m)), with_thousands(tokens_of(spec)), m.layers + m.mtp_layers,
      columns_of_layer(m), with_thousands(tokens_of(spec)), keys_per_token(spec));
}

}  // namespace tessera
