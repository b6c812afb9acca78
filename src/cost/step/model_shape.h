// The sizes of a model that its cost depends on, including kinds of layers that no program of ours
// has yet (latent attention, shared experts).
#pragma once

#include <cstdint>

#include "spec/run_spec.h"

namespace tessera {

// Multi-head latent attention: queries and keys through low ranks (DeepSeek-V2).
struct LatentAttention {
  int64_t query_rank = 0;  // 0: queries are not compressed
  int64_t kv_rank = 0;
  int64_t nope_dim = 0;  // of a head, without positions
  int64_t rope_dim = 0;  // of a head, with positions
  int64_t value_dim = 0;
};

struct ModelShape {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t ffn = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab = 0;  // as the tables are: padded
  bool gated_mlp = true;
  bool tied = false;
  bool layer_norm = false;        // with bias; otherwise RMSNorm
  bool biases = false;            // of every product but the head
  int64_t learned_positions = 0;  // rows of the table; 0: rotary
  bool dropout = false;

  int64_t experts = 0;  // 0: every layer is dense
  int64_t experts_per_token = 0;
  int64_t moe_ffn = 0;
  int64_t shared_ffn = 0;    // width of all shared experts together
  int64_t dense_layers = 0;  // first layers that have an MLP instead of experts
  int64_t mtp_layers = 0;    // further layers that predict later tokens

  bool latent = false;
  LatentAttention mla;

  [[nodiscard]] int64_t moe_layers() const { return experts > 0 ? layers - dense_layers : 0; }
  [[nodiscard]] int64_t query_width() const;  // heads times head size of queries
  [[nodiscard]] int64_t value_width() const;  // heads times head size of values
  [[nodiscard]] int64_t kv_width() const;     // of keys or values as they are kept

  // Weights of the products of one layer's attention, and of an MLP of `width`.
  [[nodiscard]] int64_t attention_parameters() const;
  [[nodiscard]] int64_t mlp_parameters(int64_t width) const;
  [[nodiscard]] int64_t small_parameters() const;  // norms and biases of one layer
  [[nodiscard]] int64_t table_parameters() const;  // of the embedding, or of the head

  [[nodiscard]] int64_t parameters() const;         // all
  [[nodiscard]] int64_t active_parameters() const;  // that a token meets
  [[nodiscard]] int64_t product_weights() const;    // of the products that a token passes
};

ModelShape shape_of(const ModelSpec& model, int64_t seq_len);

}  // namespace tessera
