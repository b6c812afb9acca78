// What a training engine does around the products: how many bytes its small kernels move, how many
// ops its host issues, what it hides behind kernels, what it keeps in memory besides tensors of the
// model. The numbers are data, one file for each engine under catalogue/engines; docs/engines.md
// lists them.
#pragma once

#include <string>
#include <vector>

#include "cost/hardware/constant.h"

namespace tessera {

// The values alone, as prices use them. What each means is in engine_keys.h; a struct that no
// engine filled in is refused by check().
struct EngineNumbers {
  // Products: rates of smaller tiles, of the largest tile's.
  double half_tile_rate = 0;
  double quarter_tile_rate = 0;
  double eighth_tile_rate = 0;

  // The core of attention.
  double flash_backward_products = 0;
  double attention_fill = 0;
  double ring_merge_bytes = 0;
  double score_bytes_forward = 0;
  double score_bytes_backward = 0;
  double head_fill = 0;

  // Small kernels.
  double hidden_passes_forward = 0;
  double hidden_passes_backward = 0;
  double attention_passes_forward = 0;
  double attention_passes_backward = 0;
  double plain_activation_share = 0;
  double embedding_passes_forward = 0;
  double embedding_passes_backward = 0;
  double logit_traffic_bytes = 0;
  double fused_logit_traffic_bytes = 0;
  double loss_chunk_sum_passes = 0;
  double quantize_bytes = 0;
  double added_gradient_bytes = 0;
  double gradient_sum_passes = 0;
  double gradient_norm_passes = 0;
  double optimizer_bytes = 0;

  // Experts.
  double expert_row_unit = 0;
  double expert_row_passes = 0;
  double exchanged_passes = 0;
  double exchanges_room = 0;

  // The host.
  double host_ops_forward = 0;
  double host_ops_backward = 0;
  double host_ops_experts = 0;
  double host_ops_waiting = 0;
  double host_ops_per_expert = 0;
  double host_ops_per_quantized_expert = 0;
  double kernels_wait_for_host = 0;

  // Communication.
  double sequence_gathers_backward = 0;
  double tensor_hidden_backward = 0;
  double overlap_window = 0;
  double overlap_slowdown = 0;
  double message_slowdown = 0;
  double tensor_overlap_share = 0;
  double last_bucket = 0;
  double splits_messages = 0;
  double messages_in_order = 0;
  double adds_every_micro_batch = 0;
  double sum_bucket_bytes = 0;
  double experts_whole_on_tp = 0;
  double whole_keys_on_tp = 0;
  double tensor_hidden_apart = 0;
  double expert_tokens_split = 0;
  double update_buckets = 0;
  double gathers_after_update = 0;
  double skips_last_product = 0;
  double context_gathers_backward = 0;
  double ring_gradient_width = 0;
  double ring_gradients_return = 0;
  double gathers_ends = 0;

  // Memory.
  double turn_units = 0;
  double expert_units = 0;
  double backward_units = 0;
  double logit_bytes = 0;
  double fused_logit_bytes = 0;
  double gathered_units = 0;
  double workspace_bytes = 0;

  bool operator==(const EngineNumbers&) const = default;
};

struct Engine {
  std::string name;
  std::string extends = "";         // the engine whose numbers were taken over, or empty
  std::vector<Constant> constants;  // in the order of kEngineKeys
  EngineNumbers numbers;            // their values
};

// The constant behind one of the numbers.
const Constant& constant_of(const Engine& engine, double EngineNumbers::*field);

// Throws ConfigError that names the constant, the value and what it must be.
void check(const EngineNumbers& engine);

}  // namespace tessera
